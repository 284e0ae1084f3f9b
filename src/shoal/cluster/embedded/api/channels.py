"""Channels: how a command's streams share one WebSocket.

Every message begins with the number of its channel. The last that is said is a Status on the error channel:
how the command ended. Since version 5 a client can say that it will send no more on a channel, and so close
the standard input of a command that still writes.
"""

from typing import Any, Final

import msgspec

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")

STDIN: Final = b"\x00"
STDOUT: Final = b"\x01"
STDERR: Final = b"\x02"
ERROR: Final = b"\x03"
RESIZE: Final = b"\x04"
CLOSE: Final = b"\xff"


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """The size of a terminal."""

    width: int = 0
    height: int = 0


def size_of(data: bytes) -> Size | None:
    """The size that a client tells, if it makes sense."""
    try:
        return msgspec.json.decode(data, type=Size)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def ended(code: int) -> dict[str, Any]:
    """The Status of a command that has ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
