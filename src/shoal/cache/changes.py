"""Changes: which objects of a World are not as they were when somebody looked last."""

from collections import defaultdict
from collections.abc import Callable, Mapping

Key = tuple[str, str]
"""Namespace (none for what belongs to the whole cluster) and name."""


class Changes:
    """Keys by kind. An object that has changed many times is in it once."""

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        """Begin with nothing; `wake` is called whenever there is something to look at, and was nothing."""
        self._noted: defaultdict[str, set[Key]] = defaultdict(set)
        self._wake = wake

    def note(self, kind: str, key: Key) -> None:
        """An object has come, has changed or is gone."""
        if self._wake and not self._noted:
            self._wake()
        self._noted[kind].add(key)

    def take(self) -> Mapping[str, set[Key]]:
        """All that was noted, for every kind; it is looked at from now on."""
        taken, self._noted = self._noted, defaultdict(set)
        return taken
