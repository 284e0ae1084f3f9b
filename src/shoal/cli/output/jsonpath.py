r"""JSONPath as in kubectl: the part that is used on command lines.

{.status.phase}                         a field
{.items[*].metadata.name}               a field of all items
{.spec.containers[0].image}             of the first item; [-1] is the last
{.metadata.labels.a\.b}  {['a.b']}      a name with a dot
{.status.conditions[?(@.type=="Ready")].status}   of the items that match a filter
{..image}                               a field at any depth
{range .items[*]}{.metadata.name}{"\n"}{end}      a template for each item
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
    """Raised when a text is not a valid JSONPath."""


def evaluate(path: str, item: Json) -> list[Json]:
    """All values at a path; the braces and the first dot of `path` are optional."""
    steps = path.strip()
    if steps.startswith("{") and steps.endswith("}"):
        steps = steps[1:-1].strip()
    steps = steps.removeprefix("$").removeprefix("@")
    if steps and not steps.startswith((".", "[")):
        steps = f".{steps}"
    values, position = [item], 0
    while position < len(steps) and steps != ".":
        step = _STEP.match(steps, position)
        if step is None:
            raise PathError(f"'{path}' is not a JSONPath: cannot parse '{steps[position:]}'")
        values = [inner for value in values for inner in _apply_step(step, value)]
        position = step.end()
    return values


def render(template: str, item: Json) -> str:
    """Replace the paths in a template with their values."""
    parts = [(part[1], part[2]) for part in _PART.finditer(template)]
    if "".join(part[0] for part in _PART.finditer(template)) != template:
        raise PathError(f"'{template}' is not a template: braces do not match")
    return "".join(_render(parts, item))


def _render(parts: Sequence[tuple[str | None, str | None]], item: Json) -> Iterator[str]:
    index = 0
    while index < len(parts):
        expression_text, text = parts[index]
        expression = (expression_text or "").strip()
        index += 1
        if expression_text is None:
            yield text or ""
        elif expression.startswith('"'):
            yield json.loads(expression)
        elif expression.startswith(f"{_RANGE} "):
            end = _end_of(parts, index)
            for member in evaluate(expression.removeprefix(_RANGE), item):
                yield from _render(parts[index:end], member)
            index = end + 1
        elif expression != _END:
            yield " ".join(map(as_text, evaluate(expression, item)))


def _end_of(parts: Sequence[tuple[str | None, str | None]], start: int) -> int:
    """Index of the {end} that closes the range."""
    depth = 1
    for index in range(start, len(parts)):
        expression = (parts[index][0] or "").strip()
        depth += expression.startswith(f"{_RANGE} ") - (expression == _END)
        if not depth:
            return index
    raise PathError("a {range …} has no {end}")


def as_text(value: Json) -> str:
    """Text of a value: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _apply_step(step: re.Match[str], value: Json) -> Iterator[Json]:
    if step["deep"]:
        yield from _descendants(step["below"], value)
    elif step["every"] or step["field"] == "*":
        yield from _members(value)
    elif step["index"] is not None:
        index = int(step["index"])
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]
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
