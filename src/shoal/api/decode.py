"""From mappings, as YAML and JSON give them, to typed views, with every error found.

msgspec converts fast but stops at the first error. So the fast way is tried first; when it fails, the type
is walked a second time, slowly: every field that is wrong is noted and replaced by a neutral value, so that
what is right can still be checked and all complaints come at once. Both ways read the same types.
A null stands for an absent field, as in Kubernetes.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from shoal.api.fields import FieldError, InvalidObjectError, child
from shoal.api.repair import Repair, custom

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
    return msgspec.convert(raw, kind, dec_hook=custom)


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
