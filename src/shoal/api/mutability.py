"""Which fields of a spec may be changed after an object was created.

A kind declares its mutable fields once. The embedded API server checks changes by `change_errors`; the rules
of `spec_rules` and `object_rules` in the CustomResourceDefinition make a Kubernetes API server refuse the
same changes. They are transition rules in CEL, which compare an object (`self`) with its predecessor
(`oldSelf`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.fields import FieldError, child
from shoal.api.meta import cel_rule

IMMUTABLE: Final = "field is immutable"
_FINISHED: Final = "field is immutable in a finished job"
_ONLY_TO_TRUE: Final = "cannot be set back to false"
_ITEMS: Final = "[]"

_Tree = Mapping[str, Any]
"""Mutable fields by name: None for a field that is mutable as a whole, else the tree of its fields."""


class Mutability(msgspec.Struct, frozen=True, kw_only=True):
    """The mutable fields of the spec of a job kind.

    Paths begin below `spec`. `tasks[].replicas` is a field of every entry of a list: the entries themselves
    can neither be added nor removed nor moved.
    """

    mutable: tuple[str, ...]
    only_to_true: tuple[str, ...] = ()
    """Mutable fields that, once true, stay true."""
    when_finished: tuple[str, ...] = ("ttlSecondsAfterFinished",)
    """Fields that may be changed even if the job has finished."""
    phase: str = "phase"
    """The field of the status by which a job has finished."""


# --- checks of the embedded API server ---------------------------------------------------------------------


def change_errors(
    mutability: Mutability, new: Mapping[str, Any], old: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Yield an error for each field of the spec that was changed and must not be."""
    if old.get("status", {}).get(mutability.phase) in FINISHED_PHASES:
        yield from _changes(new["spec"], old["spec"], _tree(mutability.when_finished), "spec", _FINISHED)
        return
    yield from _changes(new["spec"], old["spec"], _tree(mutability.mutable), "spec", IMMUTABLE)
    for name in mutability.only_to_true:
        if old["spec"].get(name) and not new["spec"].get(name):
            yield FieldError(child("spec", name), _ONLY_TO_TRUE)


def _changes(new: object, old: object, tree: _Tree | None, path: str, message: str) -> Iterator[FieldError]:
    if new == old or tree is None:
        return
    if tree and isinstance(new, dict) and isinstance(old, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _changes(new.get(name), old.get(name), tree.get(name, {}), child(path, name), message)
    elif _ITEMS in tree and isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for i, pair in enumerate(zip(new, old, strict=True)):
            yield from _changes(*pair, tree[_ITEMS], child(path, i), message)
    else:
        yield FieldError(path, message)


def _tree(paths: tuple[str, ...]) -> _Tree:
    tree: dict[str, Any] = {}
    for path in paths:
        *parents, name = path.replace(_ITEMS, f".{_ITEMS}").split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = None
    return tree


# --- rules of CustomResourceDefinitions --------------------------------------------------------------------


def spec_rules(mutability: Mutability, schema: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the rules of a spec with this schema, one for each field, so that every error has its path."""
    for rule, path in _immutable_fields(schema, _tree(mutability.mutable)):
        yield _transition_rule(rule, IMMUTABLE, path)
    for name in mutability.only_to_true:
        yield _transition_rule(f"self.{name} || !oldSelf.{name}", _ONLY_TO_TRUE, f".{name}")


def object_rules(mutability: Mutability) -> Iterator[dict[str, str]]:
    """Yield the rules of whole objects: the mutable fields of a finished job are immutable too."""
    phase = f"oldSelf.status.{mutability.phase}"
    finished = f"has(oldSelf.status) && has({phase}) && {phase} in {list(FINISHED_PHASES)}"
    for name in _tree(mutability.mutable):
        if name not in mutability.when_finished:
            rule = f"!({finished}) || {_is_unchanged(f'spec.{_escaped(name)}')}"
            yield _transition_rule(rule, _FINISHED, f".spec.{name}")


def _immutable_fields(
    schema: Mapping[str, Any], tree: _Tree, parent: str = "", path: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield a rule for each immutable field, and its path. Fields with mutable parts must be required.

    Only lists may be optional. CEL's optional types would be shorter (`self.?a == oldSelf.?a`), but an API
    server takes their comparison for too expensive.
    """
    for name, inner in schema["properties"].items():
        field, where, below = f"{parent}{_escaped(name)}", f"{path}.{name}", tree.get(name, {})
        if below is None:
            continue
        if not below:
            yield _is_unchanged(field), where
        elif _ITEMS in below:
            for rule in _immutable_members(inner["items"], below[_ITEMS], field):
                yield f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || {rule})", where
        else:
            yield from _immutable_fields(inner, below, f"{field}.", where)


def _is_unchanged(field: str) -> str:
    new, old = f"self.{field}", f"oldSelf.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


def _immutable_members(schema: Mapping[str, Any], mutable: _Tree, field: str) -> Iterator[str]:
    """Yield rules that compare two lists by the immutable fields of their entries, in order."""
    new, old = f"self.{field}", f"oldSelf.{field}"
    for name, inner in schema["properties"].items():
        if name in mutable:
            continue
        value, present = f"map(i, i.{_escaped(name)})", f"has(i.{_escaped(name)})"
        if name in schema.get("required", ()) or "default" in inner:
            yield f"{new}.{value} == {old}.{value}"
        else:
            yield f"{new}.map(i, {present}) == {old}.map(i, {present})"
            values = f"filter(i, {present}).{value}"
            yield f"{new}.{values} == {old}.{values}"


def _transition_rule(rule: str, message: str, path: str) -> dict[str, str]:
    return cel_rule(rule, message) | {"fieldPath": path}


def _escaped(name: str) -> str:
    """Return a field name as CEL spells it."""
    return name.replace("-", "__dash__")
