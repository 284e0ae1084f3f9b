"""One request, with all that is needed to answer it."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request

from shoal.apiserver.http.kubelet import Kubelet
from shoal.apiserver.http.representations import Shape, shape_of
from shoal.apiserver.http.requests import Target
from shoal.apiserver.registry.registry import Registry

NAME: Final = "name"
"""Where a request keeps the name of an object that it brings, once that is known."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request for something that is there: from whom, for what, in which home."""

    request: Request
    target: Target
    registry: Registry
    kubelet: Kubelet
    clock: Callable[[], float]
    stopping: asyncio.Event
    """Set when the server is to end: whoever streams must too."""

    @property
    def shape(self) -> Shape:
        """The shape that the answer is wanted in."""
        return shape_of(self.request.headers.get("accept", ""))
