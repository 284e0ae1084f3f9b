"""The place of a process in its job, as its environment says, and the hosts of the job at this moment."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HOSTS: Final = "hosts."
"""Beginning of the names of host files; the role follows."""
_ALONE: Final = "localhost"
_GRACE: Final = 30.0
_READS: Final = 3
"""Attempts to read a file: while files are replaced, a link may lead to the directory that is removed."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of a process in its job. Role and index stay the same whenever its pod is recreated.

    `restart` counts how often the pod was recreated: above 0 there may be a checkpoint to continue from.
    `grace` is the time in seconds between the request to stop and the kill.
    """

    job: str = ""
    role: str = "worker"
    index: int = 0
    restart: int = 0
    grace: float = _GRACE
    host_file: Path | None = None
    """None outside a job, and where an administrator took the variables away."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Place":
        """Return the place that the environment of a pod describes."""
        path = environment.get("SHOAL_HOSTFILE")
        return cls(
            job=environment.get("SHOAL_JOB", ""),
            role=environment.get("SHOAL_ROLE", "worker"),
            index=int(environment.get("SHOAL_INDEX", "0")),
            restart=int(environment.get("SHOAL_RESTART", "0")),
            grace=float(environment.get("SHOAL_GRACE_SECONDS", _GRACE)),
            host_file=Path(path) if path else None,
        )

    def hosts(self, role: str | None = None) -> list[str]:
        """Return the hosts that a role (by default the own one) is to have now, in the order of indices.

        A role without pods has none. The process itself is among them, unless it is about to be removed.
        """
        if self.host_file is None:
            return [_ALONE] if role in (None, self.role) else []
        path = self.host_file if role is None else self.host_file.with_name(f"{_HOSTS}{role}")
        for _ in range(_READS):
            with contextlib.suppress(FileNotFoundError):
                return [line.split()[0] for line in path.read_text().splitlines() if line.strip()]
        return []
