"""Objects of any other kind, field by field; what is secret is only counted."""

import base64
import binascii

from shoal.cli.input.session import Session
from shoal.cli.output.describe.common import DescriptionWriter, write_conditions, write_fields
from shoal.cluster.resources import Object


def describe(paper: DescriptionWriter, _: Session, thing: Object, now: float) -> None:
    """All of it, but for what is told of every object."""
    told = ("apiVersion", "kind", "metadata", "status")
    write_fields(paper, {name: value for name, value in thing.items() if name not in told})
    status = {name: value for name, value in (thing.get("status") or {}).items() if name != "conditions"}
    if status:
        paper.heading("Status")
        write_fields(paper, status, 1)
    write_conditions(paper, thing, now)


def describe_secret(paper: DescriptionWriter, _: Session, secret: Object, __: float) -> None:
    """How much of a secret there is, and not what."""
    paper.line("Type", secret.get("type", ""))
    sizes = {name: f"{_size(text)} bytes" for name, text in (secret.get("data") or {}).items()}
    paper.pairs("Data", sizes, sign=": ")


def _size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return len(text)
