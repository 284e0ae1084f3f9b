"""Logs of all workers of a job, as they come: of those that run and those that come later, until it ends.

Each stream has a thread of its own. Threads only put down what is to be done about what they read; one thread
does it all, so that nothing is done twice at once and no line is torn.
"""

import functools
import queue
import threading
from collections.abc import Callable
from typing import Final

import click
import msgspec

from shoal.cli.input import containers
from shoal.cli.input.session import Session, told
from shoal.cli.output.weaving import Reading, Source, Titles, lines_of, owned, sources_of
from shoal.client.client import Client
from shoal.client.watch import Change, Follower
from shoal.cluster.errors import ClusterError
from shoal.cluster.port import Where
from shoal.cluster.resources import PODS, Object, Resource

_AHEAD: Final = 1024
"""Lines that are read before they are printed: who reads them slowly holds up the streams, not our memory."""
_ENDED: Final = ("Succeeded", "Failed")
_FINAL: Final = ("Complete", "Failed")

Owner = tuple[Resource[Object], Object]


class Gathering:
    """Follows pods, of a job or of no job, and the logs of those that run."""

    def __init__(self, session: Session, where: Where, owner: Owner | None, reading: Reading) -> None:
        self._session, self._where, self._owner, self._reading = session, where, owner, reading
        self._to_do: Final = queue.Queue[Callable[[], None]](_AHEAD)
        self._begun: Final = set[Source]()
        self._open: Final = set[Source]()
        self._titles: Final = Titles(prefix=reading.prefix is not False)
        self._alive: Final[dict[str, bool]] = {}
        """Whether each pod may still write something, by uid."""
        self._ended = owner is not None and is_over(owner[1])

    def run(self) -> None:
        """Print all there is and all that comes, until nothing more can."""
        self._in_background(functools.partial(self._watch, PODS, self._where, self._look))
        if self._owner is not None:
            resource, owner = self._owner
            name, space = owner["metadata"]["name"], owner["metadata"].get("namespace", "")
            only = Where(space, fields=f"metadata.name={name}")
            self._in_background(functools.partial(self._watch, resource, only, self._see))
        while True:
            while self._open or not self._is_over():
                self._to_do.get()()
            self._look_at_all()
            if not self._open:
                return

    def _look_at_all(self) -> None:
        """Begin to read what was not heard of before the end."""
        for pod in self._session.client.list(PODS, self._where):
            self._look(Change("LISTED", pod))

    def _in_background(self, what: Callable[[], None]) -> None:
        threading.Thread(target=what, daemon=True).start()

    def _watch(self, resource: Resource[Object], where: Where, then: Callable[[Change], None]) -> None:
        """Hear of objects, over a connection that no other thread uses."""
        try:
            client = Client(self._session.client.http.access)
            for change in Follower(client, resource, where).changes():
                self._to_do.put(functools.partial(then, change))
        except ClusterError as problem:
            self._to_do.put(functools.partial(_fail, problem))

    # --- pods ---------------------------------------------------------------------------------------------

    def _look(self, change: Change) -> None:
        """Begin to read what a pod has begun to write."""
        pod = change.object
        if self._owner is not None and not owned(pod, self._owner[1]):
            return
        there = change.type != "DELETED"
        phase = (pod.get("status") or {}).get("phase")
        self._alive[pod["metadata"]["uid"]] = there and phase not in _ENDED
        for source in sources_of(pod, self._reading, quiet=True) if there else ():
            run = containers.started(pod, source.container)
            if run is not None:
                self._begin(msgspec.structs.replace(source, run=run))

    def _see(self, change: Change) -> None:
        """Learn how the job stands; another one of its name is not it."""
        if self._owner is not None and change.object["metadata"]["uid"] == self._owner[1]["metadata"]["uid"]:
            self._ended = change.type == "DELETED" or is_over(change.object)

    def _is_over(self) -> bool:
        """Whether nothing more will be written: the job has ended, or without a job, all pods have."""
        if self._owner is not None:
            return self._ended
        return bool(self._alive) and not any(self._alive.values())

    # --- logs ---------------------------------------------------------------------------------------------

    def _begin(self, source: Source) -> None:
        if source in self._begun:
            return
        self._begun.add(source)
        self._open.add(source)
        self._titles.know(source)
        self._in_background(functools.partial(self._read, source))

    def _read(self, source: Source) -> None:
        reading = self._reading
        try:
            for line in lines_of(self._session, source, reading, timestamps=reading.timestamps):
                self._to_do.put(functools.partial(self._print, source, line))
        except ClusterError as problem:
            self._to_do.put(functools.partial(click.echo, told(problem), err=True))
        self._to_do.put(functools.partial(self._open.discard, source))

    def _print(self, source: Source, line: str) -> None:
        click.echo(self._titles.line(source, line))


def _fail(problem: ClusterError) -> None:
    raise problem


def is_over(job: Object) -> bool:
    """Whether a job of any kind has ended, well or not."""
    status = job.get("status") or {}
    if status.get("phase") in _ENDED or status.get("stage") in _ENDED:
        return True
    return any(
        condition.get("type") in _FINAL and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
