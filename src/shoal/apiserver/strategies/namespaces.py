"""Namespaces: which there always are, and how one ends."""

from typing import Final

from shoal.cluster.errors import ForbiddenError
from shoal.cluster.resources import Object

ALWAYS: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_IMMORTAL: Final = ("default", "kube-public", "kube-system")
_NAME: Final = "kubernetes.io/metadata.name"


def default(namespace: Object) -> None:
    """Every namespace can be selected by its name."""
    metadata = namespace["metadata"]
    metadata["labels"] = metadata.get("labels", {}) | {_NAME: metadata["name"]}


def begin(namespace: Object) -> None:
    """A new namespace is open, and stays until what is in it is gone."""
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def carry(namespace: Object, old: Object) -> None:
    """What keeps a namespace is not its user's to change."""
    namespace["spec"] = old["spec"]


def guard(namespace: Object) -> None:
    """Refuse to delete what a cluster cannot be without."""
    name = namespace["metadata"]["name"]
    if name in _IMMORTAL:
        raise ForbiddenError(f'namespaces "{name}" is forbidden: this namespace may not be deleted')


def deleting(namespace: Object) -> None:
    """Say that the namespace is on its way out."""
    namespace["status"] = namespace.get("status", {}) | {"phase": "Terminating"}
    del namespace["metadata"]["deletionGracePeriodSeconds"]


def holds(namespace: Object) -> bool:
    """Whether what is in it still keeps a namespace."""
    return bool(namespace["spec"].get("finalizers"))
