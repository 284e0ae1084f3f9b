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
    """Return `<prefix><job><suffix>` as a DNS label; only the job's part of it is shortened.

    A suffix that leaves no room for a part of the job's name is shortened too; then the digits are a hash of
    the whole name, as labels that differ in the suffix only must stay different.
    """
    plain = f"{prefix}{job}{suffix}"
    label = plain.replace(".", "-")
    if label == plain and len(label) <= _MAX_LABEL:
        return label
    room = _MAX_CUT - len(prefix) - len(suffix)
    if room < 1:
        digest = hashlib.blake2b(f"{uid}/{plain}".encode(), digest_size=_DIGITS // 2).hexdigest()
        return f"{label[:_MAX_CUT]}-{digest}"
    return f"{prefix}{job.replace('.', '-')[:room]}{suffix}-{uid_digits(uid)}"


def label_value(name: str, uid: str) -> str:
    """Return a name as a label value: shortened if it is longer than 63 characters."""
    return name if len(name) <= _MAX_LABEL else f"{name[:_MAX_CUT]}-{uid_digits(uid)}"


def uid_digits(uid: str) -> str:
    """Return the first 8 hex digits of a uid."""
    return uid.replace("-", "")[:_DIGITS]


def qualified_host(host: str, service: str, namespace: str) -> str:
    """Return the fully qualified name of a host within a headless service."""
    return f"{host}.{service}.{namespace}.svc.{CLUSTER_DOMAIN}"
