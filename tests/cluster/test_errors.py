"""Conversion of errors to Status objects and back."""

from typing import Any

import pytest

from shoal.api.fields import FieldError
from shoal.cluster import errors
from shoal.cluster.errors import ClusterError, from_status

ALL = [error for error in ClusterError.__subclasses__() if error.__module__ == errors.__name__]


@pytest.mark.parametrize("error", ALL)
def test_every_error_survives_the_round_trip(error: type[ClusterError]) -> None:
    sent = error("no", causes=[FieldError("spec.a", "is invalid")], retry_after=3)
    received = from_status(sent.status())
    assert type(received) is error
    assert (received.message, received.causes, received.retry_after) == (
        sent.message,
        sent.causes,
        sent.retry_after,
    )


STATUSES: dict[str, tuple[dict[str, Any], int, type[ClusterError]]] = {
    "the reason takes precedence over the code": (
        {"reason": "AlreadyExists", "code": 409},
        409,
        errors.AlreadyExistsError,
    ),
    "without a reason the code decides": ({"code": 409}, 409, errors.ConflictError),
    "without either the HTTP status decides": ({}, 404, errors.NotFoundError),
    "an unknown reason leaves it to the code": (
        {"reason": "Other", "code": 403},
        403,
        errors.ForbiddenError,
    ),
    "the reason of an expired watch may be Gone": ({"reason": "Gone", "code": 410}, 410, errors.GoneError),
    "a timeout is transient": ({"reason": "Timeout", "code": 504}, 504, errors.UnavailableError),
    "a bad gateway is transient": ({}, 502, errors.UnavailableError),
    "any other server error": ({}, 599, errors.InternalError),
    "any other client error": ({}, 418, errors.BadRequestError),
    "causes of a wrong type are ignored": (
        {"reason": "Invalid", "details": {"causes": [None, "x"]}},
        422,
        errors.InvalidError,
    ),
    "causes that are not a list are ignored": (
        {"reason": "Invalid", "details": {"causes": 5}},
        422,
        errors.InvalidError,
    ),
    "details of a wrong type are ignored": ({"reason": "Invalid", "details": []}, 422, errors.InvalidError),
}


@pytest.mark.parametrize("status, code, expected", STATUSES.values(), ids=STATUSES)
def test_status_to_error(status: dict[str, Any], code: int, expected: type[ClusterError]) -> None:
    assert type(from_status(status, code=code)) is expected


def test_the_retry_after_header_takes_precedence() -> None:
    status = errors.TooManyRequestsError("later", retry_after=9).status()
    assert from_status(status, retry_after=2).retry_after == 2


def test_a_status_without_a_message_has_a_default() -> None:
    assert "503" in str(from_status({}, code=503))
