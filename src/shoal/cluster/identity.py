"""Telling an object that is gone, or whose name is another's by now, from other troubles."""

from collections.abc import Iterator
from contextlib import contextmanager

from shoal.cluster.errors import ClusterError, InvalidError, NotFoundError


class VanishedError(Exception):
    """Raised when an object is no longer there, or its name is another's."""


@contextmanager
def of_this_object(*also: type[ClusterError]) -> Iterator[None]:
    """For a write that names a uid: VanishedError if it is not that object; `also` mean the same."""
    try:
        yield
    except ClusterError as problem:
        if isinstance(problem, (NotFoundError, *also)) or _is_another(problem):
            raise VanishedError from problem
        raise


def _is_another(problem: ClusterError) -> bool:
    return isinstance(problem, InvalidError) and [one.path for one in problem.causes] == ["metadata.uid"]
