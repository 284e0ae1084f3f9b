"""Decoding of mappings, as YAML and JSON give them, to typed views, with all errors.

msgspec decodes fast but stops at the first error. So it is tried first; if it fails, the type is walked a
second time, slowly: every field of the wrong type is reported and replaced by a placeholder, so that the
other fields can still be validated and all errors are reported at once. Both ways use the same types.
A null is the same as an absent field, as in Kubernetes.
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
    """Decode types that msgspec does not support itself; the `dec_hook` of its decoders."""
    if kind is Quantity:
        return Quantity(raw)
    raise NotImplementedError(kind)


class _LenientConverter:
    """Replaces values of the wrong type by placeholders; `errors` has an error for each of them."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def convert(self, info: inspect.Type, raw: object, path: str) -> object:
        """Return `raw` if it has the right type, and the placeholder of the type otherwise."""
        match info:
            case inspect.Metadata():
                return self.convert(info.type, raw, path)
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

    def _reject(self, info: inspect.Type, path: str, message: str) -> object:
        self.errors.append(FieldError(path, message))
        return _placeholder(info)

    def _reject_type(self, info: inspect.Type, raw: object, path: str) -> object:
        return self._reject(info, path, f"must be {_type_name(info)}, not {described(raw)}")

    def _struct(self, info: inspect.StructType, raw: object, path: str) -> object:
        if not isinstance(raw, Mapping):
            return self._reject_type(info, raw, path)
        converted = {}
        for field in info.fields:
            where = child(path, field.encode_name)
            value = raw.get(field.encode_name)
            if value is not None:
                converted[field.encode_name] = self.convert(field.type, value, where)
            elif field.required:
                converted[field.encode_name] = self._reject(field.type, where, "is required")
        if info.forbid_unknown_fields:
            known = {field.encode_name for field in info.fields}
            unknown = (child(path, str(key)) for key in raw if key not in known)
            self.errors += (FieldError(where, "is not known") for where in unknown)
        return converted

    def _list(self, info: inspect.VarTupleType, raw: object, path: str) -> object:
        if not isinstance(raw, list):
            return self._reject_type(info, raw, path)
        minimum = info.min_length or 0
        if len(raw) < minimum:
            return self._reject(info, path, f"must have at least {pluralize(minimum, 'item')}")
        return [self.convert(info.item_type, item, child(path, i)) for i, item in enumerate(raw)]

    def _mapping(self, info: inspect.DictType, raw: object, path: str) -> object:
        if not isinstance(raw, Mapping):
            return self._reject_type(info, raw, path)
        converted = {}
        for key, value in raw.items():
            if not isinstance(key, str):
                self.errors.append(FieldError(path, f"must have strings as keys, not {described(key)}"))
            elif value is None:
                converted[key] = _placeholder(info.value_type)
            else:
                converted[key] = self.convert(info.value_type, value, child(path, key))
        return converted

    def _union(self, info: inspect.UnionType, raw: object, path: str) -> object:
        failures = []
        for option in _options(info):
            attempt = _LenientConverter()
            value = attempt.convert(option, raw, path)
            if not attempt.errors:
                return value
            failures.append((value, attempt.errors))
        if len(failures) > 1:
            return self._reject_type(info, raw, path)
        self.errors += failures[0][1]
        return failures[0][0]

    def _scalar(self, info: inspect.Type, raw: object, path: str) -> object:
        if isinstance(info, inspect.AnyType):
            return raw
        if not isinstance(info, inspect.CustomType):
            return raw if _fits(info, raw) else self._reject_type(info, raw, path)
        try:
            dec_hook(info.cls, raw)
        except ValueError as problem:
            return self._reject(info, path, str(problem))
        return raw


def _placeholder(info: inspect.Type) -> object:
    """Return a value of this type that is as empty as its constraints allow."""
    return _PLACEHOLDERS[type(info)](info)


_PLACEHOLDERS: Final[dict[type[inspect.Type], Callable[[Any], object]]] = {
    inspect.Metadata: lambda info: _placeholder(info.type),
    inspect.StructType: lambda info: {f.encode_name: _placeholder(f.type) for f in info.fields if f.required},
    inspect.VarTupleType: lambda info: [_placeholder(info.item_type)] * (info.min_length or 0),
    inspect.DictType: lambda _: {},
    inspect.UnionType: lambda info: _placeholder(_options(info)[0]),
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
            return isinstance(raw, str) and len(raw) >= (info.min_length or 0) and _matches_pattern(info, raw)
        case inspect.BoolType():
            return isinstance(raw, bool)
        case inspect.IntType():
            return isinstance(raw, int) and not isinstance(raw, bool) and _is_in_range(info, raw)
        case inspect.FloatType():
            return isinstance(raw, int | float) and not isinstance(raw, bool) and _is_in_range(info, raw)
        case inspect.LiteralType():
            return isinstance(raw, str) and raw in info.values
        case inspect.DateTimeType():
            return isinstance(raw, str) and _is_time(raw)
        case _:
            raise NotImplementedError(info)


def _matches_pattern(info: inspect.StrType, raw: str) -> bool:
    return info.pattern is None or re.search(info.pattern, raw) is not None


def _is_in_range(info: inspect.IntType | inspect.FloatType, raw: float) -> bool:
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


def _type_name(info: inspect.Type) -> str:
    """Return the name of the type for error messages."""
    return _TYPE_NAMES[type(info)](info)


_TYPE_NAMES: Final[dict[type[inspect.Type], Callable[[Any], str]]] = {
    inspect.Metadata: lambda info: _type_name(info.type),
    inspect.StructType: lambda _: "a mapping",
    inspect.VarTupleType: lambda _: "a list",
    inspect.DictType: lambda _: "a mapping",
    inspect.UnionType: lambda info: " or ".join(map(_type_name, _options(info))),
    inspect.LiteralType: lambda info: "one of " + ", ".join(filter(None, info.values)),
    inspect.BoolType: lambda _: "true or false",
    inspect.IntType: lambda info: "a whole number" + _range_text(info.ge, info.le),
    inspect.FloatType: lambda info: "a number" + _range_text(info.ge, info.le),
    inspect.StrType: lambda info: f"like {info.pattern}" if info.pattern else _string_name(info),
    inspect.DateTimeType: lambda _: "a time such as 2026-01-31T12:00:00Z",
    inspect.CustomType: lambda _: "a quantity",
}


def _string_name(info: inspect.StrType) -> str:
    return "a string that is not empty" if info.min_length else "a string"


def _range_text(ge: float | None, le: float | None) -> str:
    if ge is not None and le is not None:
        return f" from {ge} to {le}"
    return f" of at least {ge}" if ge is not None else f" of at most {le}" if le is not None else ""


T = TypeVar("T")
Check = Callable[[T], Iterable[FieldError]]
"""Validation of a decoded view: yields errors of values that have the right type."""

_type_info: Final[Callable[[Any], inspect.Type]] = functools.cache(inspect.type_info)


def decode(kind: type[T], raw: object, path: str = "", check: Check[T] | None = None) -> T:
    """Decode `raw` to a view of type `kind`, and validate it with `check`.

    Raises InvalidObjectError with all errors of both. Errors of `check` that depend on a field of the wrong
    type are left out.
    """
    try:
        view = _convert(kind, raw)
        errors = [*check(view)] if check else []
    except (msgspec.ValidationError, RecursionError):
        view, type_errors = _convert_leniently(kind, raw, path)
        invalid = {error.path for error in type_errors}
        found = check(view) if check else ()
        errors = [*type_errors, *(error for error in found if error.is_independent_of(invalid))]
    if errors:
        raise InvalidObjectError(errors)
    return view


def unknown_fields(kind: type[Any], raw: object, path: str = "") -> Iterator[str]:
    """Yield the paths of the keys in `raw` that the view `kind` has no field for."""
    yield from _unknown_paths(_type_info(kind), raw, path)


def _convert(kind: type[T], raw: object) -> T:
    return msgspec.convert(raw, kind, dec_hook=dec_hook)


def _convert_leniently(kind: type[T], raw: object, path: str) -> tuple[T, list[FieldError]]:
    """Return a view with placeholders for values of the wrong type, and an error for each of them."""
    info = _type_info(kind)
    converter = _LenientConverter()
    try:
        return _convert(kind, converter.convert(info, raw, path)), converter.errors
    except RecursionError:
        raise InvalidObjectError([FieldError(path, "is nested too deeply")]) from None
    except msgspec.ValidationError as problem:
        raise InvalidObjectError([*converter.errors, FieldError(path, str(problem))]) from None


def _unknown_paths(info: inspect.Type, raw: object, path: str) -> Iterator[str]:
    if isinstance(info, inspect.Metadata):
        yield from _unknown_paths(info.type, raw, path)
    elif isinstance(info, inspect.StructType) and isinstance(raw, Mapping):
        fields = {field.encode_name: field.type for field in info.fields}
        for key, value in raw.items():
            if key in fields:
                yield from _unknown_paths(fields[key], value, child(path, str(key)))
            else:
                yield child(path, str(key))
    elif isinstance(info, inspect.VarTupleType) and isinstance(raw, list):
        for i, item in enumerate(raw):
            yield from _unknown_paths(info.item_type, item, child(path, i))
    elif isinstance(info, inspect.UnionType):
        for option in info.types:
            yield from _unknown_paths(option, raw, path)
