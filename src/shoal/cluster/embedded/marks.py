"""Annotations by which nodes of an embedded home are known, and told what to play."""

from typing import Final

OURS: Final = "shoal.io/machine"
"""On nodes that an agent plays: the name of its machine."""
STOPPED: Final = "shoal.io/stopped"
"""On a node that is to be as if it were lost: `power` or `network`."""
