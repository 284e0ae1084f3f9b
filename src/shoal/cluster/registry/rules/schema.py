"""What an API server makes of our objects by their schemas: unknown fields go, defaults come.

The schemas are those of the CustomResourceDefinitions that `shoal crds` prints, so the object that is kept
here is the one that a real API server keeps.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from shoal.api import kinds
from shoal.api.crds import object_schema
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.api.kinds import Kind
from shoal.api.pool import SELECTS_NOTHING_SAID
from shoal.api.schema import PRESERVE, Schema
from shoal.cluster.registry.records import copied
from shoal.cluster.resources import Object


def filler(kind: Kind) -> Callable[[Object], None]:
    """What prunes and fills in objects of a kind."""
    schema = object_schema(kind)
    schema["properties"]["metadata"] |= {PRESERVE: True}
    return functools.partial(_fill_object, schema)


def errors(kind: Kind, thing: Object) -> list[FieldError]:
    """All that our own validation has to say, and what it cannot see any more."""
    emptied = list(_emptied_selectors(thing)) if kind is kinds.POOL else []
    try:
        kinds.read(kind, thing)
    except InvalidObjectError as problem:
        return [*problem.errors, *emptied]
    return emptied


def _emptied_selectors(pool: Object) -> Iterator[FieldError]:
    """Of labels in the wrong place nothing is left when unknown fields go, and nothing selects everything."""
    spec = pool.get("spec")
    for field in ("nodeSelector", "namespaceSelector"):
        if isinstance(spec, dict) and spec.get(field) == {}:
            yield FieldError(f"spec.{field}", SELECTS_NOTHING_SAID)


def _fill(schema: Schema, value: Any) -> None:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        _fill_object(schema, value)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _fill(schema["items"], item)


def _fill_object(schema: Schema, value: Object) -> None:
    """Drop what is unknown or null, fill in what is absent, and go on inside."""
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for name in list(value):
        inner = properties.get(name, others)
        if inner is None:
            if PRESERVE not in schema:
                del value[name]
        elif value[name] is None and not inner.get("nullable"):
            del value[name]
    for name, inner in properties.items():
        if name not in value and "default" in inner:
            value[name] = copied(inner["default"])
    for name, inside in value.items():
        inner = properties.get(name, others)
        if inner is not None:
            _fill(inner, inside)
