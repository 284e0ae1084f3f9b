"""Objects as JSON, YAML, names or the result of a JSONPath; and `-o`, which chooses between them."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from shoal.client.kind_resolver import qualified_kind
from shoal.cluster.resources import Object, Resource

if TYPE_CHECKING:
    import yaml

_PATH: Final = "jsonpath="
_NAME: Final = "name"
_F = TypeVar("_F", bound=Callable[..., Any])

TypedObject = tuple[Resource[Any], Object]


def output_option(*tables: str) -> Callable[[_F], _F]:
    """Add the option `-o`, as the parameter `output`; `tables` are the table formats of the command."""
    formats = [*tables, "json", "yaml", _NAME, f"{_PATH}TEMPLATE"]

    def checked(_: click.Context, __: click.Parameter, value: str) -> str:
        if value in ("", *formats[:-1]) or value.startswith(_PATH):
            return value
        raise click.BadParameter(f"'{value}' is not one of {', '.join(formats)}")

    return click.option(
        "-o",
        "--output",
        default="",
        callback=checked,
        metavar="|".join(formats),
        help="Output format; default text.",
    )


def print_objects(objects: Sequence[TypedObject], output: str, *, single: bool) -> None:
    """Print objects; `single` prints an only object by itself instead of in a List."""
    if output == _NAME:
        for resource, item in objects:
            click.echo(typed_name(resource, item["metadata"]["name"]))
        return
    items = [item for _, item in objects]
    print_object(items[0] if single and len(items) == 1 else as_list(items), output)


def print_object(item: Object, output: str) -> None:
    """Print one object as JSON, YAML or by a JSONPath."""
    if output.startswith(_PATH):
        from shoal.cli.output.jsonpath import PathError, render

        try:
            click.echo(render(output.removeprefix(_PATH), item), nl=False)
        except PathError as problem:
            raise click.UsageError(str(problem)) from None
    elif output == "yaml":
        click.echo(as_yaml([without_managed_fields(item)]), nl=False)
    else:
        text = msgspec.json.encode(without_managed_fields(item), order="sorted")
        click.echo(msgspec.json.format(text, indent=4))


def as_list(items: Sequence[Object]) -> Object:
    """Wrap objects in a List."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [without_managed_fields(item) for item in items],
        "metadata": {"resourceVersion": ""},
    }


def without_managed_fields(item: Object) -> Object:
    """Remove `metadata.managedFields`, as kubectl does: it is long, and rarely read."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return item
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**item, "metadata": kept}


def typed_name(resource: Resource[Any], name: str) -> str:
    """Name of an object with its kind, as on a command line: `pod/web`, `tyjob.tyrl.io/big`."""
    return f"{qualified_kind(resource)}/{name}"


def dry_run_suffix(dry_run: str) -> str:
    """Suffix of a result line that marks a dry run."""
    return {"client": " (dry run)", "server": " (server dry run)"}.get(dry_run, "")


# --- YAML --------------------------------------------------------------------------------------------------


def as_yaml(items: Sequence[Any], *, sort: bool = True) -> str:
    """Objects as YAML, several as documents; `sort` sorts fields by name, as kubectl does."""
    import yaml

    text: str = yaml.dump_all(
        items,
        Dumper=_dumper(),
        sort_keys=sort,
        width=110,
        explicit_start=len(items) > 1,
        allow_unicode=True,
    )
    return text


@functools.cache
def _dumper() -> "type[yaml.CSafeDumper]":
    """A dumper without anchors, and with multi-line texts as blocks; made late: yaml is slow to import."""
    import yaml

    class Dumper(yaml.CSafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's signature
            return True

    def represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.Node:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    return Dumper
