"""Logs of several containers, woven into one by the time of each line."""

import heapq
import sys
from collections.abc import Iterator

import click
import msgspec

from shoal.cli.input import containers, naming
from shoal.cli.input.session import Session, told
from shoal.cli.output.colours import WHEEL, painted
from shoal.client.client import path_of
from shoal.cluster.errors import ClusterError
from shoal.cluster.resources import PODS, Object


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What of each log is read, as the command line says it."""

    follow: bool
    tail: int
    since: float
    since_time: str
    previous: bool
    container: str
    all_containers: bool
    timestamps: bool
    prefix: bool | None
    limit_bytes: int

    def query(self, container: str, *, timestamps: bool) -> dict[str, str | int | bool]:
        """What the server is asked."""
        said: dict[str, str | int | bool] = {"container": container}
        said |= {"follow": True} if self.follow else {}
        said |= {"previous": True} if self.previous else {}
        said |= {"timestamps": True} if timestamps else {}
        said |= {"tailLines": self.tail} if self.tail >= 0 else {}
        said |= {"sinceSeconds": max(round(self.since), 1)} if self.since else {}
        said |= {"sinceTime": self.since_time} if self.since_time else {}
        return said | ({"limitBytes": self.limit_bytes} if self.limit_bytes else {})


class Source(msgspec.Struct, frozen=True):
    """A container whose log is read: of which pod, and after how many restarts."""

    namespace: str
    pod: str
    container: str
    uid: str
    run: int = 0


def print_logs(session: Session, wanted: str, selector: str, reading: Reading) -> None:
    """Print the logs of a pod, of a job's pods, or of those that a selector leaves."""
    kind, slash, name = wanted.rpartition("/")
    resource = session.kinds.one(kind) if slash else PODS
    if not selector and resource.full_name == PODS.full_name:
        pod = session.client.get(PODS, name, session.namespace)
        sources = sources_of(pod, reading)
        if len(sources) == 1 and not reading.prefix:
            _copy(session, sources[0], reading)
        else:
            _print_all(session, [pod], reading)
        return
    owner = None if selector else session.client.get(resource, name, session.space(resource))
    where = naming.where(session, PODS, selector)
    if reading.follow:
        from shoal.cli.output.gathering import Gathering

        Gathering(session, where, None if owner is None else (resource, owner), reading).run()
        return
    pods = [pod for pod in session.client.list(PODS, where) if owner is None or owned(pod, owner)]
    if not pods:
        click.echo(f"No pods found in {session.namespace} namespace.", err=True)
    _print_all(session, pods, reading)


# --- whose -------------------------------------------------------------------------------------------------


def owned(pod: Object, owner: Object) -> bool:
    """Whether a pod belongs to an object."""
    uid = owner["metadata"]["uid"]
    return any(reference.get("uid") == uid for reference in pod["metadata"].get("ownerReferences") or ())


def sources_of(pod: Object, reading: Reading, *, quiet: bool = False) -> list[Source]:
    """The containers of a pod that are meant."""
    metadata = pod["metadata"]
    if reading.all_containers:
        chosen = containers.names(pod)
    else:
        chosen = [reading.container or containers.usual(pod, quiet=quiet)]
    return [Source(metadata["namespace"], metadata["name"], name, metadata["uid"]) for name in chosen]


# --- one ---------------------------------------------------------------------------------------------------


def _copy(session: Session, source: Source, reading: Reading) -> None:
    """Print one log as it comes, byte by byte."""
    path = path_of(PODS, source.namespace, source.pod, "log")
    query = reading.query(source.container, timestamps=reading.timestamps)
    with session.client.stream(path, query, accept="*/*") as answer:
        while chunk := answer.read1(2**16):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def lines_of(session: Session, source: Source, reading: Reading, *, timestamps: bool) -> Iterator[str]:
    """What a container writes, line by line."""
    path = path_of(PODS, source.namespace, source.pod, "log")
    query = reading.query(source.container, timestamps=timestamps)
    with session.client.stream(path, query, accept="*/*") as answer:
        while line := answer.readline():
            yield line.decode(errors="replace").rstrip("\n")


# --- several, as they are ----------------------------------------------------------------------------------


def _print_all(session: Session, pods: list[Object], reading: Reading) -> None:
    """Print several logs as one, in the order of time; a pod that has none yet says so."""
    quiet = len(pods) > 1
    sources = [source for pod in pods for source in sources_of(pod, reading, quiet=quiet)]
    titles = Titles(prefix=len(sources) > 1 if reading.prefix is None else reading.prefix)
    for source in sources:
        titles.know(source)
    streams = [_stamped(session, source, reading) for source in sources]
    for stamp, text, source in heapq.merge(*streams, key=lambda line: line[0]):
        click.echo(titles.line(source, f"{stamp} {text}" if reading.timestamps else text))


def _stamped(session: Session, source: Source, reading: Reading) -> Iterator[tuple[str, str, Source]]:
    """The lines of a log with their times, which are texts that sort as times do."""
    try:
        for line in lines_of(session, source, reading, timestamps=True):
            stamp, _, text = line.partition(" ")
            yield stamp, text, source
    except ClusterError as problem:
        click.echo(told(problem), err=True)


class Titles:
    """What stands in front of lines: whose they are, each in a colour of its own, all equally wide."""

    def __init__(self, *, prefix: bool) -> None:
        self._prefix = prefix
        self._known: dict[str, str] = {}
        self._pods: dict[str, set[str]] = {}
        self._width = 0

    def know(self, source: Source) -> None:
        """Make room for a title before its first line comes."""
        self._pods.setdefault(source.pod, set()).add(source.container)
        title = self._title(source)
        self._known.setdefault(title, WHEEL[len(self._known) % len(WHEEL)])
        self._width = max(self._width, len(title))

    def line(self, source: Source, text: str) -> str:
        """A line with its title in front."""
        if not self._prefix:
            return text
        title = self._title(source)
        return f"{painted(title.ljust(self._width), self._known.get(title, WHEEL[0]))} {text}"

    def _title(self, source: Source) -> str:
        several = len(self._pods.get(source.pod, ())) > 1
        return f"[{source.pod}/{source.container}]" if several else f"[{source.pod}]"
