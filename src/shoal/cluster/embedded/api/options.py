"""Options: what the query of a request says."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from starlette.datastructures import QueryParams

from shoal.api.fields import FieldError, shown
from shoal.cluster.errors import BadRequestError, InvalidError
from shoal.cluster.port import Where

FieldValidation = Literal["Strict", "Warn", "Ignore"]

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_NUMBER_DIGITS: Final = 18
_MATCHES: Final = ("Exact", "NotOlderThan")
_VALIDATIONS: Final[Mapping[str, FieldValidation]] = {
    "": "Warn",
    "Strict": "Strict",
    "Warn": "Warn",
    "Ignore": "Ignore",
}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How to list or watch."""

    where: Where
    watch: bool
    limit: int
    start: str
    version: str
    match: str
    bookmarks: bool
    initial_events: bool | None
    timeout: float | None


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """How to write."""

    dry_run: bool
    fields: FieldValidation


def reading_of(query: QueryParams, namespace: str = "", name: str = "") -> Reading:
    """The options of a list or a watch; of one object by name, as kubectl once asked."""
    fields = query.get("fieldSelector", "")
    if name:
        fields = ",".join(filter(None, [f"metadata.name={name}", fields]))
    initial = query.get("sendInitialEvents")
    reading = Reading(
        where=Where(namespace, query.get("labelSelector", ""), fields),
        watch=truth(query, "watch"),
        limit=number(query, "limit") or 0,
        start=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        bookmarks=truth(query, "allowWatchBookmarks"),
        initial_events=None if initial is None else truth(query, "sendInitialEvents"),
        timeout=number(query, "timeoutSeconds"),
    )
    _check(reading)
    return reading


def _check(reading: Reading) -> None:
    """Refuse what does not go together, as Kubernetes does."""
    problems = list[FieldError]()
    if reading.watch and reading.initial_events is None and reading.match:
        problems.append(
            FieldError("resourceVersionMatch", "is forbidden for a watch without sendInitialEvents")
        )
    if reading.initial_events is not None and not reading.watch:
        problems.append(FieldError("sendInitialEvents", "is forbidden for a list"))
    if reading.initial_events is not None and reading.watch and reading.match != "NotOlderThan":
        problems.append(FieldError("resourceVersionMatch", "must be NotOlderThan with sendInitialEvents"))
    if reading.match and reading.initial_events is None and not reading.watch:
        problems += _match_problems(reading)
    if problems:
        raise InvalidError(f"ListOptions is invalid: {'; '.join(map(str, problems))}", causes=problems)


def _match_problems(reading: Reading) -> list[FieldError]:
    path = "resourceVersionMatch"
    if reading.match not in _MATCHES:
        return [FieldError(path, f"must be {' or '.join(_MATCHES)}, not '{shown(reading.match)}'")]
    if not reading.version:
        return [FieldError(path, "is forbidden without resourceVersion")]
    if reading.start:
        return [FieldError(path, "is forbidden with continue")]
    if reading.match == "Exact" and reading.version == "0":
        return [FieldError(path, "Exact is forbidden for resourceVersion 0")]
    return []


def writing_of(query: QueryParams) -> Writing:
    """The options of a create, an update or a patch."""
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        message = f"must be Ignore, Strict or Warn, not '{shown(validation)}'"
        raise InvalidError(f"fieldValidation: {message}", causes=[FieldError("fieldValidation", message)])
    return Writing(dry_run=dry_run(query.getlist("dryRun")), fields=_VALIDATIONS[validation])


def dry_run(said: list[str]) -> bool:
    """Whether nothing is to be written; there is no other way to rehearse than all of it."""
    if wrong := [value for value in said if value != "All"]:
        message = f"must be All, not '{shown(wrong[0])}'"
        raise InvalidError(f"dryRun: {message}", causes=[FieldError("dryRun", message)])
    return bool(said)


def truth(query: QueryParams, name: str) -> bool:
    """What a query says is so or not; a name without a value says that it is."""
    value = query.get(name)
    if value is None:
        return False
    if not value or value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise BadRequestError(f"{name} must be true or false, not '{shown(value)}'")


def number(query: QueryParams, name: str) -> int | None:
    """A number that a query says, at least 0."""
    value = query.get(name, "")
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > _NUMBER_DIGITS:
        raise BadRequestError(f"{name} must be a number of at least 0, not '{shown(value)}'")
    return int(value)
