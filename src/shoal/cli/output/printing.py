"""Objects as YAML that people like to read.

Objects as programs like them: JSON, YAML, names, or what a JSONPath finds.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec
import yaml

from shoal.client.kinds import qualified_kind
from shoal.cluster.resources import Object, Resource


class _Dumper(yaml.CSafeDumper):
    """Writes everything in full: anchors are hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    """Text of several lines stands as it is, line by line."""
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def as_yaml(things: Sequence[Any], *, sort: bool = True) -> str:
    """Objects, several as documents; `sort` puts fields in the order of their names, as kubectl does."""
    several = len(things) > 1
    text: str = yaml.dump_all(
        things, Dumper=_Dumper, sort_keys=sort, width=110, explicit_start=several, allow_unicode=True
    )
    return text


_PATH: Final = "jsonpath="
_NAME: Final = "name"
_F = TypeVar("_F", bound=Callable[..., Any])

TypedObject = tuple[Resource[Any], Object]


def output_option(*tables: str) -> Callable[[_F], _F]:
    """Give a command the option `-o`, as the parameter `output`; `tables` are the ways to draw one."""
    ways = [*tables, "json", "yaml", _NAME, f"{_PATH}TEMPLATE"]

    def checked(_: click.Context, __: click.Parameter, value: str) -> str:
        if value in ("", *ways[:-1]) or value.startswith(_PATH):
            return value
        raise click.BadParameter(f"'{value}' is not one of {', '.join(ways)}")

    return click.option(
        "-o",
        "--output",
        default="",
        callback=checked,
        metavar="|".join(ways),
        help="How to print: for people by default, for programs with one of these.",
    )


def print_objects(found: Sequence[TypedObject], output: str, *, single: bool) -> None:
    """Print objects; `single` if one was asked for, and not a list of however many there are."""
    if output == _NAME:
        for resource, thing in found:
            click.echo(typed_name(resource, thing["metadata"]["name"]))
        return
    things = [thing for _, thing in found]
    print_object(things[0] if single and len(things) == 1 else as_list(things), output)


def print_object(thing: Object, output: str) -> None:
    """Print one object."""
    if output.startswith(_PATH):
        from shoal.cli.output.jsonpath import PathError, render

        try:
            click.echo(render(output.removeprefix(_PATH), thing), nl=False)
        except PathError as problem:
            raise click.UsageError(str(problem)) from None
    elif output == "yaml":
        click.echo(as_yaml([without_managed_fields(thing)]), nl=False)
    else:
        text = msgspec.json.encode(without_managed_fields(thing), order="sorted")
        click.echo(msgspec.json.format(text, indent=4))


def as_list(things: Sequence[Object]) -> Object:
    """Objects in a List."""
    items = [without_managed_fields(thing) for thing in things]
    return {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}


def without_managed_fields(thing: Object) -> Object:
    """An object without the book that servers keep of who wrote which field: nobody reads it."""
    metadata = thing.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return thing
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**thing, "metadata": kept}


def typed_name(resource: Resource[Any], name: str) -> str:
    """An object as it is named on a command line: `pod/web`, `tyjob.tyrl.io/big`."""
    return f"{short(resource)}/{name}"


def dry_run_suffix(dry_run: str) -> str:
    """What is added to a line if nothing was really done."""
    return {"client": " (dry run)", "server": " (server dry run)"}.get(dry_run, "")
