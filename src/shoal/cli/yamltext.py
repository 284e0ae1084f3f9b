"""Objects as YAML that people like to read."""

from collections.abc import Sequence
from typing import Any

import yaml


class _Dumper(yaml.CSafeDumper):
    """Writes everything in full: anchors are hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    """Text of several lines stands as it is, line by line."""
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(things: Sequence[Any], *, sort: bool = True) -> str:
    """Objects, several as documents; `sort` puts fields in the order of their names, as kubectl does."""
    several = len(things) > 1
    text: str = yaml.dump_all(
        things, Dumper=_Dumper, sort_keys=sort, width=110, explicit_start=several, allow_unicode=True
    )
    return text
