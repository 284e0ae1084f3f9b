"""Missing rights: one message for each, however many requests are denied for want of it."""

import logging
from functools import cache
from typing import Final

from shoal.cluster.errors import ClusterError, ForbiddenError

_LOG: Final = logging.getLogger(__name__)
_RIGHT: Final = " cannot "
"""What comes before the right in the message of an API server: `User "x" cannot list resource "pods" …`."""


def report_denial(error: ClusterError) -> None:
    """Log the right that a request lacks, once for each verb and resource; other errors are ignored."""
    right = error.message.partition(_RIGHT)[2]
    if isinstance(error, ForbiddenError) and right:
        _warn_once(right)


@cache
def _warn_once(right: str) -> None:
    _LOG.warning("missing right: this manager cannot %s", right)
