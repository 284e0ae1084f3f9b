"""Making values fit their types: what is wrong is noted, and replaced by a value that says nothing.

From mappings, as YAML and JSON give them, to typed views, with every error found.

msgspec converts fast but stops at the first error. So the fast way is tried first; when it fails, the type
is walked a second time, slowly: every field that is wrong is noted and replaced by a neutral value, so that
what is right can still be checked and all complaints come at once. Both ways read the same types.
A null stands for an absent field, as in Kubernetes.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from shoal.api.fields import FieldError, InvalidObjectError, child, described, pluralize
from shoal.api.quantity import Quantity


def dec_hook(kind: type[Any], raw: object) -> object:
    """The hook of msgspec for the types that it does not know."""
    if kind is Quantity:
        return Quantity(raw)
    raise NotImplementedError(kind)


class Repair:
    """Makes values fit their types; `errors` has what had to be replaced, and why."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def value(self, info: inspect.Type, raw: object, path: str) -> object:
        """`raw` where it fits, else the neutral value of the type."""
        match info:
            case inspect.Metadata():
                return self.value(info.type, raw, path)
            case inspect.StructType():
                return self._struct(info, raw, path)
            case inspect.VarTupleType():
                return self._list(info, raw, path)
            case inspect.DictType():
                return self._mapping(info, raw, path)
            case inspect.UnionType():
                return self._union(info, raw, path)
            case _:
                return self._scalar(info, raw, path)

    def _wrong(self, info: inspect.Type, path: str, message: str) -> object:
        self.errors.append(FieldError(path, message))
        return _neutral(info)

    def _mistyped(self, info: inspect.Type, raw: object, path: str) -> object:
        return self._wrong(info, path, f"must be {_wanted(info)}, not {described(raw)}")

    def _struct(self, info: inspect.StructType, raw: object, path: str) -> object:
        if not isinstance(raw, Mapping):
            return self._mistyped(info, raw, path)
        made = {}
        for field in info.fields:
            where = child(path, field.encode_name)
            value = raw.get(field.encode_name)
            if value is not None:
                made[field.encode_name] = self.value(field.type, value, where)
            elif field.required:
                made[field.encode_name] = self._wrong(field.type, where, "is required")
        if info.forbid_unknown_fields:
            known = {field.encode_name for field in info.fields}
            unknown = (child(path, str(key)) for key in raw if key not in known)
            self.errors += (FieldError(where, "is not known") for where in unknown)
        return made

    def _list(self, info: inspect.VarTupleType, raw: object, path: str) -> object:
        if not isinstance(raw, list):
            return self._mistyped(info, raw, path)
        least = info.min_length or 0
        if len(raw) < least:
            return self._wrong(info, path, f"must have at least {pluralize(least, 'item')}")
        return [self.value(info.item_type, item, child(path, i)) for i, item in enumerate(raw)]

    def _mapping(self, info: inspect.DictType, raw: object, path: str) -> object:
        if not isinstance(raw, Mapping):
            return self._mistyped(info, raw, path)
        made = {}
        for key, value in raw.items():
            if not isinstance(key, str):
                self.errors.append(FieldError(path, f"must have strings as keys, not {described(key)}"))
            elif value is None:
                made[key] = _neutral(info.value_type)
            else:
                made[key] = self.value(info.value_type, value, child(path, key))
        return made

    def _union(self, info: inspect.UnionType, raw: object, path: str) -> object:
        tries = []
        for option in _options(info):
            attempt = Repair()
            value = attempt.value(option, raw, path)
            if not attempt.errors:
                return value
            tries.append((value, attempt.errors))
        if len(tries) > 1:
            return self._mistyped(info, raw, path)
        self.errors += tries[0][1]
        return tries[0][0]

    def _scalar(self, info: inspect.Type, raw: object, path: str) -> object:
        if isinstance(info, inspect.AnyType):
            return raw
        if not isinstance(info, inspect.CustomType):
            return raw if _fits(info, raw) else self._mistyped(info, raw, path)
        try:
            dec_hook(info.cls, raw)
        except ValueError as problem:
            return self._wrong(info, path, str(problem))
        return raw


def _neutral(info: inspect.Type) -> object:
    """A value of this type that says nothing."""
    return _NEUTRAL[type(info)](info)


_NEUTRAL: Final[dict[type[inspect.Type], Callable[[Any], object]]] = {
    inspect.Metadata: lambda info: _neutral(info.type),
    inspect.StructType: lambda info: {f.encode_name: _neutral(f.type) for f in info.fields if f.required},
    inspect.VarTupleType: lambda info: [_neutral(info.item_type)] * (info.min_length or 0),
    inspect.DictType: lambda _: {},
    inspect.UnionType: lambda info: _neutral(_options(info)[0]),
    inspect.LiteralType: lambda info: info.values[0],
    inspect.BoolType: lambda _: False,
    inspect.IntType: lambda info: info.ge or 0,
    inspect.FloatType: lambda info: info.ge or 0,
    inspect.StrType: lambda _: "",
    inspect.DateTimeType: lambda _: "1970-01-01T00:00:00Z",
    inspect.CustomType: lambda _: "0",
    inspect.AnyType: lambda _: None,
}


def _options(info: inspect.UnionType) -> list[inspect.Type]:
    return [option for option in info.types if not isinstance(option, inspect.NoneType)]


def _fits(info: inspect.Type, raw: object) -> bool:
    match info:
        case inspect.StrType():
            return isinstance(raw, str) and len(raw) >= (info.min_length or 0) and _is_like(info, raw)
        case inspect.BoolType():
            return isinstance(raw, bool)
        case inspect.IntType():
            return isinstance(raw, int) and not isinstance(raw, bool) and _within(info, raw)
        case inspect.FloatType():
            return isinstance(raw, int | float) and not isinstance(raw, bool) and _within(info, raw)
        case inspect.LiteralType():
            return isinstance(raw, str) and raw in info.values
        case inspect.DateTimeType():
            return isinstance(raw, str) and _is_time(raw)
        case _:
            raise NotImplementedError(info)


def _is_like(info: inspect.StrType, raw: str) -> bool:
    return info.pattern is None or re.search(info.pattern, raw) is not None


def _within(info: inspect.IntType | inspect.FloatType, raw: float) -> bool:
    return (
        (info.ge is None or raw >= info.ge)
        and (info.le is None or raw <= info.le)
        and (info.gt is None or raw > info.gt)
    )


def _is_time(raw: str) -> bool:
    try:
        return msgspec.convert(raw, datetime).tzinfo is not None
    except msgspec.ValidationError:
        return False


def _wanted(info: inspect.Type) -> str:
    """What a value of this type is called."""
    return _WANTED[type(info)](info)


_WANTED: Final[dict[type[inspect.Type], Callable[[Any], str]]] = {
    inspect.Metadata: lambda info: _wanted(info.type),
    inspect.StructType: lambda _: "a mapping",
    inspect.VarTupleType: lambda _: "a list",
    inspect.DictType: lambda _: "a mapping",
    inspect.UnionType: lambda info: " or ".join(map(_wanted, _options(info))),
    inspect.LiteralType: lambda info: "one of " + ", ".join(filter(None, info.values)),
    inspect.BoolType: lambda _: "true or false",
    inspect.IntType: lambda info: "a whole number" + _bounds(info.ge, info.le),
    inspect.FloatType: lambda info: "a number" + _bounds(info.ge, info.le),
    inspect.StrType: lambda info: f"like {info.pattern}" if info.pattern else _some_string(info),
    inspect.DateTimeType: lambda _: "a time such as 2026-01-31T12:00:00Z",
    inspect.CustomType: lambda _: "a quantity",
}


def _some_string(info: inspect.StrType) -> str:
    return "a string that is not empty" if info.min_length else "a string"


def _bounds(ge: float | None, le: float | None) -> str:
    if ge is not None and le is not None:
        return f" from {ge} to {le}"
    return f" of at least {ge}" if ge is not None else f" of at most {le}" if le is not None else ""


T = TypeVar("T")
Check = Callable[[T], Iterable[FieldError]]
"""Complains about what has the right type but cannot be."""

_TOO_DEEP: Final = "is nested too deeply"
_type_info: Final[Callable[[Any], inspect.Type]] = functools.cache(inspect.type_info)


def decode(kind: type[T], raw: object, path: str = "", check: Check[T] | None = None) -> T:
    """`raw` as a view of type `kind`; InvalidObjectError with all errors, those of `check` too, otherwise."""
    try:
        view = _convert(kind, raw)
        errors = [*check(view)] if check else []
    except (msgspec.ValidationError, RecursionError):
        view, wrong = _salvage(kind, raw, path)
        places = {error.path for error in wrong}
        found = check(view) if check else ()
        errors = [*wrong, *(error for error in found if error.stands_without(places))]
    if errors:
        raise InvalidObjectError(errors)
    return view


def unknown_fields(kind: type[Any], raw: object, path: str = "") -> Iterator[str]:
    """Paths of the keys in `raw` that the view `kind` does not know."""
    yield from _unknown(_type_info(kind), raw, path)


def _convert(kind: type[T], raw: object) -> T:
    return msgspec.convert(raw, kind, dec_hook=dec_hook)


def _salvage(kind: type[T], raw: object, path: str) -> tuple[T, list[FieldError]]:
    """A view of what is right in `raw`, and what is wrong."""
    info = _type_info(kind)
    repair = Repair()
    try:
        return _convert(kind, repair.value(info, raw, path)), repair.errors
    except RecursionError:
        raise InvalidObjectError([FieldError(path, _TOO_DEEP)]) from None
    except msgspec.ValidationError as problem:
        raise InvalidObjectError([*repair.errors, FieldError(path, str(problem))]) from None


def _unknown(info: inspect.Type, raw: object, path: str) -> Iterator[str]:
    if isinstance(info, inspect.Metadata):
        yield from _unknown(info.type, raw, path)
    elif isinstance(info, inspect.StructType) and isinstance(raw, Mapping):
        fields = {field.encode_name: field.type for field in info.fields}
        for key, value in raw.items():
            if key in fields:
                yield from _unknown(fields[key], value, child(path, str(key)))
            else:
                yield child(path, str(key))
    elif isinstance(info, inspect.VarTupleType) and isinstance(raw, list):
        for i, item in enumerate(raw):
            yield from _unknown(info.item_type, item, child(path, i))
    elif isinstance(info, inspect.UnionType):
        for option in info.types:
            yield from _unknown(option, raw, path)
