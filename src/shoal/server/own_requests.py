"""Errors of the server's own requests to the cluster: their codes are not about the request of a caller.

A server without permissions must not tell its callers that they have none.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from shoal.api.fields import InvalidObjectError
from shoal.cluster.errors import (
    ClusterError,
    ConflictError,
    InternalError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)


@contextmanager
def own_request(failure: str) -> Iterator[None]:
    """Translate errors within the block: what may succeed later becomes 503, everything else 500.

    `failure` begins the message. ConflictError and NotFoundError are left to the caller of this function.
    """
    try:
        yield
    except (ConflictError, NotFoundError):
        raise
    except (UnavailableError, TooManyRequestsError) as error:
        raise UnavailableError(f"{failure}: {error.message}", retry_after=error.retry_after) from error
    except ClusterError as error:
        raise InternalError(f"{failure}: {error.message}") from error
    except (msgspec.ValidationError, InvalidObjectError) as error:  # what the cluster has does not fit
        raise InternalError(f"{failure}: {error}") from error
