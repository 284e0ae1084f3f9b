"""Job ids, as workers know them: `namespace.name`, or `namespace.name.generation`.

A namespace has no dots; a name may have some. So an id that ends in digits can be read in two ways: the
digits are a generation, or they are the end of the name.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from shoal.api.names import dns_label_errors, dns_subdomain_errors
from shoal.cluster.object_store import Key

_MAX_LENGTH: Final = 512
"""Maximum length of an id: more than a namespace, a name and a generation can have."""


class JobId(NamedTuple):
    """One reading of a job id; without a generation, any is meant."""

    key: Key
    generation: int | None = None


def read_job_id(text: str) -> tuple[JobId, ...]:
    """Return the readings of an id, the more likely one first; none if it cannot be an id."""
    return _named(text) if len(text) <= _MAX_LENGTH else ()


def exact_job_id(namespace: str, name: str) -> tuple[JobId, ...]:
    """Return the id of a job whose namespace and name are known; none if these cannot be names."""
    return (JobId((namespace, name)),) if _is_name(namespace, name) else ()


@lru_cache(maxsize=4096)
def _named(text: str) -> tuple[JobId, ...]:
    """Return the readings with valid names; cached: workers ask about the same few jobs all the time."""
    return tuple(one for one in _readings(text) if _is_name(*one.key))


def _readings(text: str) -> Iterator[JobId]:
    namespace, _, rest = text.partition(".")
    name, _, last = rest.rpartition(".")
    if name and last.isascii() and last.isdigit():
        yield JobId((namespace, name), _generation(last))
    yield JobId((namespace, rest))


def _generation(digits: str) -> int:
    """Return a generation; digits beyond those of a 64-bit number make no difference: it is too large."""
    return int(digits.lstrip("0")[:20] or "0")


def _is_name(namespace: str, name: str) -> bool:
    return not any((*dns_label_errors(namespace, ""), *dns_subdomain_errors(name, "")))
