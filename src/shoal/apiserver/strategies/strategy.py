"""What the rules of a kind are made of. A kind says only what is special about it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from shoal.api.fields import FieldError, InvalidObjectError
from shoal.apiserver.registry.records import Record
from shoal.cluster.errors import InvalidError
from shoal.cluster.resources import Object, Resource


class Reader(Protocol):
    """What rules may look up: other objects, as the newest writes left them."""

    def records(self, resource: str, namespace: str = "") -> list[Record]:
        """The objects of a resource."""


def _nothing(_: Object) -> None:
    """Fill in nothing."""


def _carry_nothing(_new: Object, _old: Object) -> None:
    """Let an update say everything itself."""


def _no_errors(_: Object) -> Iterable[FieldError]:
    return ()


def _all_may_change(_new: Object, _old: Object) -> Iterable[FieldError]:
    return ()


def _no_admission(_thing: Object, _old: Object | None, _reader: Reader) -> None:
    """Let everything in."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one resource. Functions that fill in change the object they are given.

    `default` fills in what a user left out, in every write; `derive` what follows from other objects, before
    anything is checked; `begin` what only a new object gets; `carry` what an update cannot say. `errors` is
    all that is wrong with an object, `frozen` with a change of one; `admit` looks at other objects at last.
    """

    resource: Resource[Any]
    default: Callable[[Object], None] = _nothing
    begin: Callable[[Object], None] = _nothing
    carry: Callable[[Object, Object], None] = _carry_nothing
    derive: Callable[[Object, Object | None, Reader], None] = _no_admission
    admit: Callable[[Object, Object | None, Reader], None] = _no_admission
    errors: Callable[[Object], Iterable[FieldError]] = _no_errors
    frozen: Callable[[Object, Object], Iterable[FieldError]] = _all_may_change
    keeps_status: bool = False
    """A new object may bring its status."""
    custom: bool = False
    """Defined by a schema of ours; who writes a status cannot change metadata with it."""
    counts_changes: bool = True
    """The generation, if there is one, rises with every change of what is wanted."""
    unconditional: bool = True
    """An update need not say which version it is of."""
    created_by_update: bool = False
    """An update of what is not there makes it."""
    any_finalizers: bool = False
    """Finalizers need not have a domain."""
    orphans: bool = False
    """Dependents stay unless the deletion says otherwise."""
    graceful: bool = False
    """Deletion takes the time that the object asks for."""
    guard: Callable[[Object], None] | None = None
    """Refuses the deletion of some."""
    deleting: Callable[[Object], None] | None = None
    """What else changes when the deletion begins."""
    holds: Callable[[Object], bool] | None = None
    """Whether something else than finalizers keeps an object that is being deleted."""

    @property
    def kind(self) -> str:
        """The kind as errors call it: `Job.batch`."""
        return f"{self.resource.kind}.{self.resource.group}" if self.resource.group else self.resource.kind

    def called(self, name: str) -> str:
        """An object as errors call it: `pods "a"`."""
        return f'{self.resource.full_name} "{name}"'

    def cannot(self, name: str) -> str:
        """How a conflict begins."""
        return f"Operation cannot be fulfilled on {self.called(name)}"

    def check(self, name: str, errors: Iterable[FieldError]) -> None:
        """InvalidError with everything that is wrong, if anything is."""
        found = list(errors)
        if found:
            raise self.invalid(name, InvalidObjectError(found).errors)

    def invalid(self, name: str, errors: list[FieldError]) -> InvalidError:
        """The error that says all that is wrong."""
        said = ", ".join(map(str, errors))
        return InvalidError(
            f'{self.kind} "{name}" is invalid: {said if len(errors) == 1 else f"[{said}]"}', causes=errors
        )


IMMUTABLE: Final = "field is immutable"


def unchanged(new: Object, old: Object, *fields: str) -> Iterator[FieldError]:
    """Complain about fields that changed; a field is a path such as `spec.selector`."""
    for path in fields:
        if _at(new, path) != _at(old, path):
            yield FieldError(path, IMMUTABLE)


def _at(thing: object, path: str) -> object:
    for name in path.split("."):
        thing = thing.get(name) if isinstance(thing, dict) else None
    return thing
