"""The heads of requests: read by uvicorn's quick parser, up to a size, and refused with a Status."""

import sys
from typing import Final

import msgspec
from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shoal.cluster.embedded.api.failures import not_allowed
from shoal.cluster.errors import BadRequestError, ClusterError

_LARGEST: Final = 2**16
"""Bytes of a head; requests with long selectors have a few thousand."""


class HttpProtocol(HttpToolsProtocol):
    """Uvicorn's, which hangs up on who does not come to the end of a head."""

    _unended: int | None = None
    """Bytes of a head that has not ended."""

    def data_received(self, data: bytes) -> None:
        """Read on."""
        super().data_received(data)
        if self._unended is not None:
            self._unended += len(data)
            if self._unended > _LARGEST:
                self._refuse(BadRequestError(f"the head of the request has more than {_LARGEST} bytes"))

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._unended = 0

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._unended = None
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        """Refuse what the parser does not take; it takes only methods that it knows."""
        if isinstance(sys.exception(), HttpParserInvalidMethodError):
            self._refuse(not_allowed())
        else:
            self._refuse(BadRequestError("what was sent is no HTTP request"))

    def _refuse(self, error: ClusterError) -> None:
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(error.status())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[error.code] + head + body)
        self.transport.close()
