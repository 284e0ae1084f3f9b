"""Kubernetes' rules for names, label keys and label values; numbers in names; names of our own."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Final

from shoal.api.fields import FieldError, child, shown

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253
_MAX_QUALIFIED: Final = _MAX_SUBDOMAIN + 1 + _MAX_LABEL
_SMALL_NUMBER: Final = re.compile(r"[0-9]{1,7}", re.ASCII)

TRACKING_FINALIZER: Final = "shoal.io/tracking"
"""Keeps the pods of our job kinds until their end is recorded in the status of their job."""

JOB_VOLUME: Final = "shoal-job"
"""Volume of the pods of our job kinds, with files that Shoal keeps up to date: the hosts of the job."""

JOB_DIRECTORY: Final = "/var/run/shoal"
"""Where containers find that volume."""

DNS_LABEL: Final = {"maxLength": _MAX_LABEL, "pattern": f"^{_LABEL.pattern}$"}
"""Schema of a DNS label in a CRD."""

OPTIONAL_DNS_LABEL: Final = DNS_LABEL | {"pattern": f"^({_LABEL.pattern})?$"}
"""Schema of a DNS label that may be empty."""

LABEL_VALUE: Final = {"maxLength": _MAX_LABEL, "pattern": f"^({_QUALIFIED.pattern})?$"}
"""Schema of a label value."""

QUALIFIED_NAME: Final = {
    "maxLength": _MAX_QUALIFIED,
    "pattern": f"^({_SUBDOMAIN.pattern}/)?{_QUALIFIED.pattern}$",
}
"""Schema of a resource name. The lengths of its two parts are left to validation."""


@functools.lru_cache(maxsize=8192)
def parse_small_int(text: str) -> int | None:
    """Parse one to seven ASCII digits; None for any other text, also for signs and spaces."""
    return int(text) if _SMALL_NUMBER.fullmatch(text) else None


def dns_label_errors(name: str, path: str) -> Iterator[FieldError]:
    """Yield an error unless `name` is a DNS label (lower case letters, digits and `-`, at most 63)."""
    if len(name) > _MAX_LABEL or not _LABEL.fullmatch(name):
        yield FieldError(
            path,
            f"must be a DNS label (a-z, 0-9 and -, at most {_MAX_LABEL} characters), not '{shown(name)}'",
        )


def dns_subdomain_errors(name: str, path: str) -> Iterator[FieldError]:
    """Yield an error unless `name` is a DNS subdomain (labels joined by dots, at most 253)."""
    if len(name) > _MAX_SUBDOMAIN or not _SUBDOMAIN.fullmatch(name):
        yield FieldError(
            path,
            f"must be a DNS name (a-z, 0-9, - and ., at most {_MAX_SUBDOMAIN} characters), "
            f"not '{shown(name)}'",
        )


def qualified_name_errors(
    key: str, path: str, depends_on: tuple[str, ...] | None = None
) -> Iterator[FieldError]:
    """Yield an error unless `key` is a label key, annotation key or resource name: `[prefix/]name`."""
    if len(key) > _MAX_QUALIFIED or not _is_qualified(key):
        message = (
            "must be named [prefix/]name: a DNS name, then letters, digits, -, _ and . "
            f"(at most {_MAX_LABEL}), not '{shown(key)}'"
        )
        yield FieldError(path, message, depends_on)


@functools.lru_cache(maxsize=4096)
def _is_qualified(key: str) -> bool:
    """Whether a key is a qualified name. Cached: most objects have the same few keys."""
    prefix, slash, name = key.rpartition("/")
    valid_prefix = not slash or (len(prefix) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(prefix))
    return bool(valid_prefix and len(name) <= _MAX_LABEL and _QUALIFIED.fullmatch(name))


def label_value_errors(value: str, path: str) -> Iterator[FieldError]:
    """Yield an error unless `value` is a valid label value."""
    if value and (len(value) > _MAX_LABEL or not _QUALIFIED.fullmatch(value)):
        yield FieldError(
            path,
            f"must be letters, digits, -, _ and . (at most {_MAX_LABEL} characters), not '{shown(value)}'",
        )


def labels_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Yield errors for label keys and values that Kubernetes rejects."""
    for key, value in labels.items():
        where = child(path, key)
        yield from qualified_name_errors(key, where, depends_on=(path,))
        yield from label_value_errors(value, where)
