"""What nodes a machine is to be: as `shoal up` is told, or as it was told last time.

Pods are on nodes. A home that came back as other nodes would have lost those that its pods run on.
"""

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from shoal.cluster.embedded.shim.files import write_whole

_FILE: Final = "nodes.json"


class Layout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes, as people say them; without a number it is one, named like the machine."""

    nodes: int = 0
    cpu: str = ""
    memory: str = ""
    gpus: int | None = None


def last(home: Path) -> Layout:
    """What the home was last; at first nothing in particular."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((home / _FILE).read_bytes(), type=Layout)
    return Layout()


def remember(home: Path, layout: Layout) -> None:
    """Keep what the home is now, for the next time."""
    if layout != last(home):
        write_whole(str(home / _FILE), msgspec.json.encode(layout), durable=True)
