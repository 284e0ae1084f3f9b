"""Negotiation: in which form a client wants its answer.

The first form in the Accept header that can be given is given. A client that takes nothing of it (but only
protobuf, say) is told so.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from shoal.cluster.errors import NotAcceptableError

Shape = Literal["Object", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]

_JSON: Final = ("application/json", "application/*", "*/*")
_META: Final = "meta.k8s.io"
_SHAPES: Final[dict[str, Shape]] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
_VERSIONS: Final = ("v1",)


class Media(msgspec.Struct, frozen=True):
    """One entry of an Accept header."""

    type: str
    parameters: dict[str, str]


def shape_of(accept: str) -> Shape:
    """The shape of the answer."""
    for media in media_of(accept):
        if media.type not in _JSON:
            continue
        wanted = media.parameters.get("as")
        if wanted is None:
            return "Object"
        good = media.parameters.get("g") == _META and media.parameters.get("v") in _VERSIONS
        if good and wanted in _SHAPES:
            return _SHAPES[wanted]
    raise NotAcceptableError("only the following media types are accepted: application/json")


def wants(accept: str, **parameters: str) -> bool:
    """Whether the first JSON that a client would take has these parameters."""
    first = next((media for media in media_of(accept) if media.type in _JSON), None)
    return first is not None and parameters.items() <= first.parameters.items()


def media_of(accept: str) -> Iterator[Media]:
    """The entries of an Accept header, in order; without one, anything will do."""
    for entry in (accept or "*/*").split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield Media(kind.lower(), {name.strip(): value.strip() for name, _, value in pairs})
