"""Errors of the cluster port.

    ClusterError
    ├── BadRequestError          400  the request is malformed
    ├── UnauthorizedError        401  no valid credentials
    ├── ForbiddenError           403  not allowed, or denied by admission
    ├── NotFoundError            404
    ├── MethodNotAllowedError    405
    ├── NotAcceptableError       406
    ├── ConflictError            409  the object was changed meanwhile: read again, decide again
    ├── AlreadyExistsError       409  the name is taken: a retry cannot succeed
    ├── GoneError                410  the resourceVersion is too old: list again
    ├── TooLargeError            413
    ├── UnsupportedMediaError    415
    ├── InvalidError             422  the object is not valid; `causes` lists every invalid field
    ├── TooManyRequestsError     429  retry later, after `retry_after` if given
    ├── InternalError            500
    ├── UnavailableError         503  and other transient failures: 504, a broken connection
    └── StorageError             507  the disk failed: no further write can be stored

Codes and reasons are those of Kubernetes. Every error can be converted to a `Status` object and back.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from shoal.api.fields import FieldError


class ClusterError(Exception):
    """Raised when a request to a cluster fails; base class of all errors of the port."""

    code: ClassVar[int] = HTTPStatus.INTERNAL_SERVER_ERROR
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self, message: str, *, causes: Iterable[FieldError] = (), retry_after: float | None = None
    ) -> None:
        """`causes` are the invalid fields, `retry_after` the seconds until a retry; both as far as known."""
        super().__init__(message)
        self.message: Final = message
        self.causes: Final = tuple(causes)
        self.retry_after: Final = retry_after

    def status(self) -> dict[str, Any]:
        """Return the error as a Kubernetes Status object."""
        details: dict[str, Any] = {}
        if self.causes:
            details["causes"] = [{"field": cause.path, "message": cause.message} for cause in self.causes]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = max(round(self.retry_after), 1)
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": int(self.code),
        }


class BadRequestError(ClusterError):
    """Raised when a request is malformed, whatever objects the cluster has."""

    code = HTTPStatus.BAD_REQUEST
    reason = "BadRequest"


class UnauthorizedError(ClusterError):
    """Raised when a request has no valid credentials."""

    code = HTTPStatus.UNAUTHORIZED
    reason = "Unauthorized"


class ForbiddenError(ClusterError):
    """Raised when the caller is not allowed to make a request, or admission denies it."""

    code = HTTPStatus.FORBIDDEN
    reason = "Forbidden"


class NotFoundError(ClusterError):
    """Raised when the object or the resource does not exist."""

    code = HTTPStatus.NOT_FOUND
    reason = "NotFound"


class MethodNotAllowedError(ClusterError):
    """Raised when a resource does not support a method."""

    code = HTTPStatus.METHOD_NOT_ALLOWED
    reason = "MethodNotAllowed"


class NotAcceptableError(ClusterError):
    """Raised when the cluster supports none of the response formats that the request accepts."""

    code = HTTPStatus.NOT_ACCEPTABLE
    reason = "NotAcceptable"


class ConflictError(ClusterError):
    """Raised when the object was changed, or deleted and recreated, since it was read: read it again."""

    code = HTTPStatus.CONFLICT
    reason = "Conflict"


class AlreadyExistsError(ClusterError):
    """Raised when an object of that name exists already."""

    code = HTTPStatus.CONFLICT
    reason = "AlreadyExists"


class GoneError(ClusterError):
    """Raised when a resourceVersion is too old to continue from: list again."""

    code = HTTPStatus.GONE
    reason = "Expired"


class TooLargeError(ClusterError):
    """Raised when an object or a request exceeds the size limit of the cluster."""

    code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    reason = "RequestEntityTooLarge"


class UnsupportedMediaError(ClusterError):
    """Raised when the cluster does not support the content type of a request."""

    code = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    reason = "UnsupportedMediaType"


class InvalidError(ClusterError):
    """Raised when an object is not valid; `causes` lists every invalid field."""

    code = HTTPStatus.UNPROCESSABLE_ENTITY
    reason = "Invalid"


class TooManyRequestsError(ClusterError):
    """Raised when a request may succeed later: the cluster is busy, or a disruption budget is exhausted."""

    code = HTTPStatus.TOO_MANY_REQUESTS
    reason = "TooManyRequests"


class InternalError(ClusterError):
    """Raised when the cluster itself fails."""


class UnavailableError(ClusterError):
    """Raised when the cluster is unreachable or does not answer in time; the request may have succeeded."""

    code = HTTPStatus.SERVICE_UNAVAILABLE
    reason = "ServiceUnavailable"


class StorageError(ClusterError):
    """Raised when a write could not be stored; it had no effect."""

    code = HTTPStatus.INSUFFICIENT_STORAGE
    reason = "InsufficientStorage"


_BY_REASON: Final = {error.reason: error for error in ClusterError.__subclasses__()} | {
    "Gone": GoneError,
    "Timeout": UnavailableError,
    "ServerTimeout": UnavailableError,
}
_BY_CODE: Final = {
    int(error.code): error for error in ClusterError.__subclasses__() if error is not AlreadyExistsError
}
_BAD_GATEWAYS: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)


def from_status(
    status: Mapping[str, Any], *, code: int | None = None, retry_after: float | None = None
) -> ClusterError:
    """Make the error of a `Status` object; `code` and `retry_after` are those of the HTTP response."""
    own_code = status.get("code")
    if not isinstance(own_code, int) or not own_code:
        own_code = code or int(HTTPStatus.INTERNAL_SERVER_ERROR)
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    raw_causes = details.get("causes")
    causes = [
        FieldError(str(cause.get("field") or ""), str(cause.get("message") or ""))
        for cause in (raw_causes if isinstance(raw_causes, list) else ())
        if isinstance(cause, Mapping)
    ]
    seconds = details.get("retryAfterSeconds")
    delay = retry_after if retry_after is not None else seconds if isinstance(seconds, int) else None
    error = _BY_REASON.get(str(status.get("reason") or "")) or _class_for_code(own_code)
    message = str(status.get("message") or "") or f"the API server answered {own_code}"
    return error(message, causes=causes, retry_after=delay)


def _class_for_code(number: int) -> type[ClusterError]:
    if number in _BAD_GATEWAYS:
        return UnavailableError
    return _BY_CODE.get(
        number, InternalError if number >= HTTPStatus.INTERNAL_SERVER_ERROR else BadRequestError
    )
