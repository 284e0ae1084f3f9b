"""Names that follow from a job's name: DNS labels for hosts and services, and label values.

A job's name may have dots and up to 170 characters; a DNS label has no dots and at most 63 characters. A
label that has to be changed for that ends in digits of the job's uid, so that it differs from those of other
jobs.
"""

import hashlib
from typing import Final

CLUSTER_DOMAIN: Final = "cluster.local"
_MAX_LABEL: Final = 63
_DIGITS: Final = 8
_MAX_CUT: Final = _MAX_LABEL - _DIGITS - 1


def dns_label(job: str, uid: str, *, prefix: str = "", suffix: str = "") -> str:
    """Return `<prefix><job><suffix>` as a DNS label; only the job's part of it is shortened."""
    plain = f"{prefix}{job}{suffix}"
    if "." not in plain and len(plain) <= _MAX_LABEL:
        return plain
    return _with_digits(job.replace(".", "-"), uid, prefix, suffix)


def label_value(job: str, uid: str, *, suffix: str = "") -> str:
    """Return `<job><suffix>` as a label value; if it is too long, the job's part of it is shortened."""
    plain = f"{job}{suffix}"
    return plain if len(plain) <= _MAX_LABEL else _with_digits(job, uid, "", suffix)


def _with_digits(job: str, uid: str, prefix: str, suffix: str) -> str:
    """Return a label with digits of the uid.

    A suffix that leaves no room for a part of the job's name is shortened too; then the digits are a hash of
    the whole name, as labels that differ in the suffix only must stay different.
    """
    room = _MAX_CUT - len(prefix) - len(suffix)
    if room > 0:
        return f"{prefix}{job[:room]}{suffix}-{uid_digits(uid)}"
    plain = f"{prefix}{job}{suffix}"
    digest = hashlib.blake2b(f"{uid}/{plain}".encode(), digest_size=_DIGITS // 2).hexdigest()
    return f"{plain[:_MAX_CUT]}-{digest}"


def uid_digits(uid: str) -> str:
    """Return the first 8 hex digits of a uid."""
    return uid.replace("-", "")[:_DIGITS]


def qualified_host(host: str, service: str, namespace: str) -> str:
    """Return the fully qualified name of a host within a headless service."""
    return f"{host}.{service}.{namespace}.svc.{CLUSTER_DOMAIN}"
