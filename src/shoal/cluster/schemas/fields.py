"""Fields of an object beside its schema: those that there are not, and those of another type."""

from typing import Any, Final

import msgspec

from shoal.api.fields import child, described
from shoal.api.schema import INT_OR_STRING, PRESERVE, Schema
from shoal.cluster.schemas.core import resolved

_TYPES: Final[dict[str, tuple[str, type | tuple[type, ...]]]] = {
    "string": ("a string", str),
    "integer": ("a whole number", int),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", bool),
    "array": ("a list", list),
    "object": ("an object", dict),
}


class Fitted(msgspec.Struct, frozen=True):
    """An object without the fields that there are not, their paths, and what is of a wrong type."""

    value: Any
    unknown: tuple[str, ...]
    wrong: tuple[str, ...]


def fitted(value: object, schema: Schema) -> Fitted:
    """An object as its schema has it."""
    fitting = _Fitting()
    return Fitted(fitting.value(value, schema, ""), tuple(fitting.unknown), tuple(fitting.wrong))


class _Fitting:
    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []

    def value(self, value: object, schema: Schema, path: str) -> object:
        """A value without fields that there are not; null is nothing, whatever there should be."""
        schema = resolved(schema)
        if value is None or not self._has_type(value, schema, path):
            return value
        if isinstance(value, dict):
            return self._object(value, schema, path)
        if isinstance(value, list):
            items = schema.get("items", {})
            return [self.value(member, items, child(path, number)) for number, member in enumerate(value)]
        return value

    def _object(self, value: dict[str, object], schema: Schema, path: str) -> dict[str, object]:
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if properties is None and more is None:
            return value
        made = {}
        for name, inner in value.items():
            known = (properties or {}).get(name, more)
            if known is not None:
                made[name] = self.value(inner, known, child(path, name))
            elif schema.get(PRESERVE):
                made[name] = inner
            else:
                self.unknown.append(child(path, name))
        return made

    def _has_type(self, value: object, schema: Schema, path: str) -> bool:
        if schema.get(INT_OR_STRING) or "type" not in schema:
            return True
        name, types = _TYPES[schema["type"]]
        if isinstance(value, types) and isinstance(value, bool) == (types is bool):
            return True
        self.wrong.append(f"{path or 'the object'} must be {name}, not {described(value)}")
        return False
