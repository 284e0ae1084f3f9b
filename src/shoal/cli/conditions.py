"""`--for`: what somebody waits for, read from the command line."""

from shoal.cli.jsonpath import as_text, found
from shoal.client.waiting import Test, gone
from shoal.cluster.resources import Object


def test_of(said: str) -> Test:
    """Whether it holds: `delete`, `create`, `condition=Ready[=true]`, `jsonpath={.a.b}[=value]`.

    ValueError if it is none of these.
    """
    kind, _, rest = said.partition("=")
    if said == "delete":
        return gone("")
    if said == "create":
        return lambda thing: thing is not None
    if kind == "condition" and rest:
        name, _, wanted = rest.partition("=")
        return lambda thing: thing is not None and _has(thing, name, wanted or "true")
    if kind == "jsonpath" and rest:
        return _path(rest)
    raise ValueError(f"'{said}' is not delete, create, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]")


def _has(thing: Object, name: str, wanted: str) -> bool:
    """Whether a condition is as it should be, and about the object as it is now."""
    status = thing.get("status") or {}
    for condition in status.get("conditions") or ():
        if str(condition.get("type")).lower() == name.lower():
            observed = condition.get("observedGeneration", status.get("observedGeneration"))
            if observed is not None and observed < thing["metadata"].get("generation", 0):
                return False
            return str(condition.get("status")).lower() == wanted.lower()
    return False


def _path(rest: str) -> Test:
    path, brace, wanted = rest.rpartition("}")
    if not brace:
        path, _, wanted = rest.partition("=")
        wanted = f"={wanted}" if wanted else ""
    found(path + brace, {})  # what is not a path is said now
    value = wanted.removeprefix("=").strip("\"'") if wanted else None

    def holds(thing: Object | None) -> bool:
        values = found(path + brace, thing or {})
        return any(value is None or as_text(one) == value for one in values)

    return holds
