r"""JSONPath as kubectl has it, as far as people use it on a command line.

{.status.phase}                         a field
{.items[*].metadata.name}               of all members
{.spec.containers[0].image}             of the first; [-1] is the last
{.metadata.labels.a\.b}  {['a.b']}      a name with a dot
{.status.conditions[?(@.type=="Ready")].status}   of those members for which something holds
{..image}                               wherever it is
{range .items[*]}{.metadata.name}{"\n"}{end}      text around each
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

Json = Any

_STEP: Final = re.compile(
    r"(?P<deep>\.\.)(?P<below>[\w-]+)"
    r"|\.(?P<field>(?:[^.\[\]\s\\]|\\.)+)"
    r"|\[\s*'(?P<quoted>[^']*)'\s*\]"
    r"|\[\s*(?P<index>-?\d+)\s*\]"
    r"|\[\s*(?P<every>\*)\s*\]"
    r"|\[\s*\?\(\s*@(?P<inner>[^=!<>]*?)\s*(?:(?P<sign>==|!=)\s*(?P<value>\"[^\"]*\"|'[^']*'|[^\s)]+)\s*)?\)\s*\]"
)
_PART: Final = re.compile(r"\{((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^{}\"'])*)\}|([^{}]+)")
_RANGE, _END = "range", "end"


class PathError(ValueError):
    """Raised when a text is not a JSONPath."""


def evaluate(path: str, thing: Json) -> list[Json]:
    """All that is at a path; `path` may lack the braces and the first dot."""
    bare = path.strip()
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1].strip()
    bare = bare.removeprefix("$").removeprefix("@")
    if bare and not bare.startswith((".", "[")):
        bare = f".{bare}"
    values, position = [thing], 0
    while position < len(bare) and bare != ".":
        step = _STEP.match(bare, position)
        if step is None:
            raise PathError(f"'{path}' is not a JSONPath: '{bare[position:]}' is not understood")
        values = [inner for value in values for inner in _apply_step(step, value)]
        position = step.end()
    return values


def render(template: str, thing: Json) -> str:
    """A template with what its paths find put in place."""
    parts = [(part[1], part[2]) for part in _PART.finditer(template)]
    if "".join(part[0] for part in _PART.finditer(template)) != template:
        raise PathError(f"'{template}' is not a template: braces do not match")
    return "".join(_render(parts, thing))


def _render(parts: Sequence[tuple[str | None, str | None]], thing: Json) -> Iterator[str]:
    number = 0
    while number < len(parts):
        inside, text = parts[number]
        said = (inside or "").strip()
        number += 1
        if inside is None:
            yield text or ""
        elif said.startswith('"'):
            yield json.loads(said)
        elif said.startswith(f"{_RANGE} "):
            end = _end_of(parts, number)
            for member in evaluate(said.removeprefix(_RANGE), thing):
                yield from _render(parts[number:end], member)
            number = end + 1
        elif said != _END:
            yield " ".join(map(as_text, evaluate(said, thing)))


def _end_of(parts: Sequence[tuple[str | None, str | None]], start: int) -> int:
    """Where the range that has begun ends."""
    depth = 1
    for number in range(start, len(parts)):
        said = (parts[number][0] or "").strip()
        depth += said.startswith(f"{_RANGE} ") - (said == _END)
        if not depth:
            return number
    raise PathError("a {range …} has no {end}")


def as_text(value: Json) -> str:
    """A value as it is printed: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _apply_step(step: re.Match[str], value: Json) -> Iterator[Json]:
    if step["deep"]:
        yield from _descendants(step["below"], value)
    elif step["every"] or step["field"] == "*":
        yield from _members(value)
    elif step["index"] is not None:
        number = int(step["index"])
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]
    elif step["inner"] is not None:
        yield from (member for member in _members(value) if _matches_filter(step, member))
    else:
        name = step["quoted"] if step["quoted"] is not None else re.sub(r"\\(.)", r"\1", step["field"])
        if isinstance(value, dict) and name in value:
            yield value[name]


def _members(value: Json) -> list[Json]:
    return [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []


def _descendants(name: str, value: Json) -> Iterator[Json]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    for member in _members(value):
        yield from _descendants(name, member)


def _matches_filter(step: re.Match[str], member: Json) -> bool:
    values = evaluate(step["inner"] or ".", member)
    if not step["sign"]:
        return bool(values)
    wanted = step["value"].strip("\"'")
    return bool(values) and (as_text(values[0]) == wanted) is (step["sign"] == "==")
