"""Reasons: why a workload waits."""

from typing import Literal

import msgspec

Code = Literal[
    "NoRoom",
    "WaitingForRoom",
    "NeverFits",
    "WaitingForPool",
    "Behind",
    "Held",
    "PolicyRefused",
    "NameTaken",
]


class Reason(msgspec.Struct, frozen=True):
    """Why a workload waits: a code for programs, a message for people."""

    code: Code
    message: str
