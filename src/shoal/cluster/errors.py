"""How a cluster says no.

    ClusterError
    ├── BadRequestError          400  the request itself makes no sense
    ├── UnauthorizedError        401  nobody knows who is asking
    ├── ForbiddenError           403  who is asking may not, or nobody may just now
    ├── NotFoundError            404
    ├── MethodNotAllowedError    405
    ├── NotAcceptableError       406
    ├── ConflictError            409  somebody else wrote in between: read again, decide again
    ├── AlreadyExistsError       409  the name is taken: trying again is in vain
    ├── GoneError                410  what was asked about is too long ago: list again
    ├── TooLargeError            413
    ├── UnsupportedMediaError    415
    ├── InvalidError             422  the object is wrong; `causes` has everything that is
    ├── TooManyRequestsError     429  later, and `retry_after` may say when
    ├── InternalError            500
    ├── UnavailableError         503  and whatever else passes by itself: 504, a broken connection
    └── StorageError             507  the disk refuses: nothing more can be promised

Codes and reasons are those of Kubernetes, and every error can become a `Status` object and come back.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from shoal.api.fields import FieldError


class ClusterError(Exception):
    """Raised when a cluster cannot or will not do what it was asked to."""

    code: ClassVar[int] = HTTPStatus.INTERNAL_SERVER_ERROR
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self, message: str, *, causes: Iterable[FieldError] = (), retry_after: float | None = None
    ) -> None:
        """Say what is wrong, where in the object, and when to try again, as far as any of it is known."""
        super().__init__(message)
        self.message: Final = message
        self.causes: Final = tuple(causes)
        self.retry_after: Final = retry_after

    def status(self) -> dict[str, Any]:
        """The error as Kubernetes writes it."""
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
    """Raised when a request makes no sense, whatever the cluster holds."""

    code = HTTPStatus.BAD_REQUEST
    reason = "BadRequest"


class UnauthorizedError(ClusterError):
    """Raised when the cluster does not know who is asking."""

    code = HTTPStatus.UNAUTHORIZED
    reason = "Unauthorized"


class ForbiddenError(ClusterError):
    """Raised when who is asking may not, or admission refuses."""

    code = HTTPStatus.FORBIDDEN
    reason = "Forbidden"


class NotFoundError(ClusterError):
    """Raised when there is no such object, or no such resource."""

    code = HTTPStatus.NOT_FOUND
    reason = "NotFound"


class MethodNotAllowedError(ClusterError):
    """Raised when a resource does not know a verb."""

    code = HTTPStatus.METHOD_NOT_ALLOWED
    reason = "MethodNotAllowed"


class NotAcceptableError(ClusterError):
    """Raised when no format that was asked for can be had."""

    code = HTTPStatus.NOT_ACCEPTABLE
    reason = "NotAcceptable"


class ConflictError(ClusterError):
    """Raised when the object is not the one that was meant, or no longer as it was: read it again."""

    code = HTTPStatus.CONFLICT
    reason = "Conflict"


class AlreadyExistsError(ClusterError):
    """Raised when the name is taken."""

    code = HTTPStatus.CONFLICT
    reason = "AlreadyExists"


class GoneError(ClusterError):
    """Raised when a version is too old to go on from: list again."""

    code = HTTPStatus.GONE
    reason = "Expired"


class TooLargeError(ClusterError):
    """Raised when an object or a request is larger than the cluster takes."""

    code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    reason = "RequestEntityTooLarge"


class UnsupportedMediaError(ClusterError):
    """Raised when the cluster does not understand the format of what was sent."""

    code = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    reason = "UnsupportedMediaType"


class InvalidError(ClusterError):
    """Raised when an object cannot be accepted; `causes` has everything that is wrong with it."""

    code = HTTPStatus.UNPROCESSABLE_ENTITY
    reason = "Invalid"


class TooManyRequestsError(ClusterError):
    """Raised when it would be possible later: the cluster is busy, or a disruption budget is spent."""

    code = HTTPStatus.TOO_MANY_REQUESTS
    reason = "TooManyRequests"


class InternalError(ClusterError):
    """Raised when something in the cluster broke."""


class UnavailableError(ClusterError):
    """Raised when the cluster cannot be reached or does not answer in time; it may have done as asked."""

    code = HTTPStatus.SERVICE_UNAVAILABLE
    reason = "ServiceUnavailable"


class StorageError(ClusterError):
    """Raised when what was asked could not be written down; it was not done."""

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
    """The error that a `Status` object tells of; `code` and `retry_after` are what HTTP said, if it did."""
    said = status.get("code")
    number = said if isinstance(said, int) and said else code or int(HTTPStatus.INTERNAL_SERVER_ERROR)
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    listed = details.get("causes")
    causes = [
        FieldError(str(cause.get("field") or ""), str(cause.get("message") or ""))
        for cause in (listed if isinstance(listed, list) else ())
        if isinstance(cause, Mapping)
    ]
    seconds = details.get("retryAfterSeconds")
    later = retry_after if retry_after is not None else seconds if isinstance(seconds, int) else None
    error = _BY_REASON.get(str(status.get("reason") or "")) or _of_code(number)
    message = str(status.get("message") or "") or f"the API server answered {number}"
    return error(message, causes=causes, retry_after=later)


def _of_code(number: int) -> type[ClusterError]:
    if number in _BAD_GATEWAYS:
        return UnavailableError
    return _BY_CODE.get(
        number, InternalError if number >= HTTPStatus.INTERNAL_SERVER_ERROR else BadRequestError
    )
