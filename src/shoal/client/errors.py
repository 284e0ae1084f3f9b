"""What a command is refused with, beyond what servers say themselves.

UnavailableError
└── UnreachableError     there is no server, or none that could be spoken to
NotFoundError
└── UnknownKindError     there is no such kind, here or at all
"""

from typing import Any, Final

from shoal.cluster.errors import NotFoundError, UnavailableError
from shoal.cluster.resources import OWN_GROUPS, Resource

_CRDS_HINT: Final = "; `shoal crds | shoal apply -f -` installs it"


class UnreachableError(UnavailableError):
    """Raised when a server cannot be spoken to; what it would say is not known."""


class UnknownKindError(NotFoundError):
    """Raised when a name means no kind of the cluster; names those that are near."""


def absent(resource: Resource[Any]) -> UnknownKindError:
    """The error for a kind that we know and a server does not."""
    hint = _CRDS_HINT if resource.group in OWN_GROUPS else ""
    return UnknownKindError(f'the server doesn\'t have a resource type "{resource.plural}"{hint}')
