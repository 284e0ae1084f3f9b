"""Changes: the keys of objects that changed since a consumer of the World last took them."""

from collections import defaultdict
from collections.abc import Callable, Mapping

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""


class Changes:
    """Keys by kind; an object that changed several times is in it once."""

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        """Start empty; `wake` is called when the first change arrives after `take`."""
        self._noted: defaultdict[str, set[Key]] = defaultdict(set)
        self._wake = wake

    def note(self, kind: str, key: Key) -> None:
        """Note that an object was added, changed or removed."""
        if self._wake and not self._noted:
            self._wake()
        self._noted[kind].add(key)

    def take(self) -> Mapping[str, set[Key]]:
        """Return the noted keys of every kind, and start again empty."""
        taken, self._noted = self._noted, defaultdict(set)
        return taken
