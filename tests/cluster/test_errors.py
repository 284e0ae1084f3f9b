"""Every error goes to a Status and comes back as itself."""

from typing import Any

import pytest

from shoal.api.fields import FieldError
from shoal.cluster import errors
from shoal.cluster.errors import ClusterError, from_status

ALL = ClusterError.__subclasses__()


@pytest.mark.parametrize("error", ALL)
def test_an_error_comes_back_from_its_status_as_it_was(error: type[ClusterError]) -> None:
    sent = error("no", causes=[FieldError("spec.a", "is odd")], retry_after=3)
    back = from_status(sent.status())
    assert type(back) is error
    assert (back.message, back.causes, back.retry_after) == (sent.message, sent.causes, sent.retry_after)


STRANGE: dict[str, tuple[dict[str, Any], int, type[ClusterError]]] = {
    "a reason decides before the code": (
        {"reason": "AlreadyExists", "code": 409},
        409,
        errors.AlreadyExistsError,
    ),
    "without a reason the code decides": ({"code": 409}, 409, errors.ConflictError),
    "without either HTTP decides": ({}, 404, errors.NotFoundError),
    "a reason from elsewhere leaves it to the code": (
        {"reason": "Odd", "code": 403},
        403,
        errors.ForbiddenError,
    ),
    "a watch that is too old may say Gone": ({"reason": "Gone", "code": 410}, 410, errors.GoneError),
    "a time-out passes": ({"reason": "Timeout", "code": 504}, 504, errors.UnavailableError),
    "so does a bad gateway": ({}, 502, errors.UnavailableError),
    "another failure of the server is its own": ({}, 599, errors.InternalError),
    "another complaint is about the request": ({}, 418, errors.BadRequestError),
    "causes of the wrong shape are passed over": (
        {"reason": "Invalid", "details": {"causes": [None, "x"]}},
        422,
        errors.InvalidError,
    ),
    "no list of causes is passed over": (
        {"reason": "Invalid", "details": {"causes": 5}},
        422,
        errors.InvalidError,
    ),
    "details of the wrong shape too": ({"reason": "Invalid", "details": []}, 422, errors.InvalidError),
}


@pytest.mark.parametrize("status, code, expected", STRANGE.values(), ids=STRANGE)
def test_a_status_becomes_the_error_it_tells_of(
    status: dict[str, Any], code: int, expected: type[ClusterError]
) -> None:
    assert type(from_status(status, code=code)) is expected


def test_what_http_says_about_later_goes_before_the_status() -> None:
    status = errors.TooManyRequestsError("later", retry_after=9).status()
    assert from_status(status, retry_after=2).retry_after == 2


def test_a_status_without_words_still_says_something() -> None:
    assert "503" in str(from_status({}, code=503))
