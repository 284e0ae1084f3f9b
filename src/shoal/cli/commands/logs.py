"""`shoal logs`: what containers write; of all workers of a job together."""

import functools
import heapq
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
import msgspec

from shoal.cli.input.completion import complete_targets
from shoal.cli.input.options import parse_duration, selector_option
from shoal.cli.input.selection import (
    container_names,
    default_container,
    is_owned_by,
    list_options,
    restart_count,
)
from shoal.cli.input.session import Session, error_text, session_option
from shoal.cli.output.tables import PALETTE, paint
from shoal.client.client import Client, path_of
from shoal.client.watch import ObjectChange, Watcher
from shoal.cluster.errors import ClusterError
from shoal.cluster.port import Selector
from shoal.cluster.resources import PODS, Object, Resource


@click.command()
@click.argument("wanted", nargs=-1, metavar="POD|KIND/NAME [CONTAINER]", shell_complete=complete_targets)
@session_option
@selector_option
@click.option("-f", "--follow", is_flag=True, help="Go on, and print what is written.")
@click.option("--tail", type=int, default=-1, metavar="LINES", help="Only the last lines of each container.")
@click.option(
    "--since", callback=parse_duration, default="0s", metavar="DURATION", help="Only what is newer."
)
@click.option("--since-time", default="", metavar="TIME", help="Only what was written after (RFC 3339).")
@click.option("-p", "--previous", is_flag=True, help="Of the run before the last restart.")
@click.option("-c", "--container", default="", metavar="NAME", help="Of this container.")
@click.option("--all-containers", is_flag=True, help="Of all containers.")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time it was written.")
@click.option(
    "--prefix/--no-prefix", default=None, help="Begin each line with whose it is; if there are several."
)
@click.option(
    "--limit-bytes", type=click.IntRange(0), default=0, metavar="N", help="At most so much of each."
)
def logs(session: Session, wanted: tuple[str, ...], selector: str, **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Print what containers write.

    Of a job it prints what all its workers write, line by line in the order of time, each with the name of
    its worker in front. With -f workers that come later are followed too, until the job has ended.

    \b
    Examples:
      shoal logs web
      shoal logs web -c sidecar --tail=20 -f
      shoal logs dijob/cartpole -f               all workers
      shoal logs -l team=a --since=5m --prefix
    """
    if bool(wanted) == bool(selector):
        raise click.UsageError("name a pod or a job (KIND/NAME), or choose pods with -l")
    most = 2
    if len(wanted) > most:
        raise click.UsageError("name one pod or job, and one container")
    if len(wanted) == most:
        said["container"] = said["container"] or wanted[1]
    print_logs(session, wanted[0] if wanted else "", selector, LogOptions(**said))


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
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


class LogSource(msgspec.Struct, frozen=True):
    """A container whose log is read: of which pod, and after how many restarts."""

    namespace: str
    pod: str
    container: str
    uid: str
    run: int = 0


def print_logs(session: Session, wanted: str, selector: str, reading: LogOptions) -> None:
    """Print the logs of a pod, of a job's pods, or of those that a selector leaves."""
    kind, slash, name = wanted.rpartition("/")
    resource = session.kinds.one(kind) if slash else PODS
    if not selector and resource.full_name == PODS.full_name:
        pod = session.client.get(PODS, name, session.namespace)
        sources = log_sources(pod, reading)
        if len(sources) == 1 and not reading.prefix:
            _copy(session, sources[0], reading)
        else:
            _print_merged(session, [pod], reading)
        return
    owner = None if selector else session.client.get(resource, name, session.space(resource))
    where = list_options(session, PODS, selector)
    if reading.follow:
        LogFollower(session, where, None if owner is None else (resource, owner), reading).run()
        return
    pods = [pod for pod in session.client.list(PODS, where) if owner is None or is_owned_by(pod, owner)]
    if not pods:
        click.echo(f"No pods found in {session.namespace} namespace.", err=True)
    _print_merged(session, pods, reading)


def log_sources(pod: Object, reading: LogOptions, *, quiet: bool = False) -> list[LogSource]:
    """The containers of a pod that are meant."""
    metadata = pod["metadata"]
    if reading.all_containers:
        chosen = container_names(pod)
    else:
        chosen = [reading.container or default_container(pod, quiet=quiet)]
    return [LogSource(metadata["namespace"], metadata["name"], name, metadata["uid"]) for name in chosen]


# --- one ---------------------------------------------------------------------------------------------------


def _copy(session: Session, source: LogSource, reading: LogOptions) -> None:
    """Print one log as it comes, byte by byte."""
    path = path_of(PODS, source.namespace, source.pod, "log")
    query = reading.query(source.container, timestamps=reading.timestamps)
    with session.client.stream(path, query, accept="*/*") as answer:
        while chunk := answer.read1(2**16):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def read_lines(
    session: Session, source: LogSource, reading: LogOptions, *, timestamps: bool
) -> Iterator[str]:
    """What a container writes, line by line."""
    path = path_of(PODS, source.namespace, source.pod, "log")
    query = reading.query(source.container, timestamps=timestamps)
    with session.client.stream(path, query, accept="*/*") as answer:
        while line := answer.readline():
            yield line.decode(errors="replace").rstrip("\n")


# --- several, as they are ----------------------------------------------------------------------------------


def _print_merged(session: Session, pods: list[Object], reading: LogOptions) -> None:
    """Print several logs as one, in the order of time; a pod that has none yet says so."""
    quiet = len(pods) > 1
    sources = [source for pod in pods for source in log_sources(pod, reading, quiet=quiet)]
    titles = LinePrefixes(prefix=len(sources) > 1 if reading.prefix is None else reading.prefix)
    for source in sources:
        titles.know(source)
    streams = [_read_timestamped(session, source, reading) for source in sources]
    for stamp, text, source in heapq.merge(*streams, key=lambda line: line[0]):
        click.echo(titles.line(source, f"{stamp} {text}" if reading.timestamps else text))


def _read_timestamped(
    session: Session, source: LogSource, reading: LogOptions
) -> Iterator[tuple[str, str, LogSource]]:
    """The lines of a log with their times, which are texts that sort as times do."""
    try:
        for line in read_lines(session, source, reading, timestamps=True):
            stamp, _, text = line.partition(" ")
            yield stamp, text, source
    except ClusterError as problem:
        click.echo(error_text(problem), err=True)


class LinePrefixes:
    """What stands in front of lines: whose they are, each in a colour of its own, all equally wide."""

    def __init__(self, *, prefix: bool) -> None:
        self._prefix = prefix
        self._known: dict[str, str] = {}
        self._pods: dict[str, set[str]] = {}
        self._width = 0

    def know(self, source: LogSource) -> None:
        """Make room for a title before its first line comes."""
        self._pods.setdefault(source.pod, set()).add(source.container)
        title = self._title(source)
        self._known.setdefault(title, PALETTE[len(self._known) % len(PALETTE)])
        self._width = max(self._width, len(title))

    def line(self, source: LogSource, text: str) -> str:
        """A line with its title in front."""
        if not self._prefix:
            return text
        title = self._title(source)
        return f"{paint(title.ljust(self._width), self._known.get(title, PALETTE[0]))} {text}"

    def _title(self, source: LogSource) -> str:
        several = len(self._pods.get(source.pod, ())) > 1
        return f"[{source.pod}/{source.container}]" if several else f"[{source.pod}]"


_QUEUE_SIZE: Final = 1024
"""Lines that are read before they are printed: who reads them slowly holds up the streams, not our memory."""
_FINISHED_PHASES: Final = ("Succeeded", "Failed")
_FINISHED_CONDITIONS: Final = ("Complete", "Failed")

Owner = tuple[Resource[Object], Object]


class LogFollower:
    """Follows pods, of a job or of no job, and the logs of those that run."""

    def __init__(
        self, session: Session, selector: Selector, owner: Owner | None, reading: LogOptions
    ) -> None:
        self._session, self._where, self._owner, self._reading = session, selector, owner, reading
        self._to_do: Final = queue.Queue[Callable[[], None]](_QUEUE_SIZE)
        self._begun: Final = set[LogSource]()
        self._open: Final = set[LogSource]()
        self._titles: Final = LinePrefixes(prefix=reading.prefix is not False)
        self._alive: Final[dict[str, bool]] = {}
        """Whether each pod may still write something, by uid."""
        self._ended = owner is not None and is_finished(owner[1])

    def run(self) -> None:
        """Print all there is and all that comes, until nothing more can."""
        self._in_background(functools.partial(self._watch, PODS, self._where, self._look))
        if self._owner is not None:
            resource, owner = self._owner
            name, space = owner["metadata"]["name"], owner["metadata"].get("namespace", "")
            only = Selector(space, fields=f"metadata.name={name}")
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
            self._look(ObjectChange("LISTED", pod))

    def _in_background(self, what: Callable[[], None]) -> None:
        threading.Thread(target=what, daemon=True).start()

    def _watch(self, resource: Resource[Object], selector: Selector, then: Callable[[ObjectChange], None]) -> None:
        """Hear of objects, over a connection that no other thread uses."""
        try:
            client = Client(self._session.client.http.access)
            for change in Watcher(client, resource, selector).changes():
                self._to_do.put(functools.partial(then, change))
        except ClusterError as problem:
            self._to_do.put(functools.partial(_raise, problem))

    # --- pods ---------------------------------------------------------------------------------------------

    def _look(self, change: ObjectChange) -> None:
        """Begin to read what a pod has begun to write."""
        pod = change.object
        if self._owner is not None and not is_owned_by(pod, self._owner[1]):
            return
        there = change.type != "DELETED"
        phase = (pod.get("status") or {}).get("phase")
        self._alive[pod["metadata"]["uid"]] = there and phase not in _FINISHED_PHASES
        for source in log_sources(pod, self._reading, quiet=True) if there else ():
            run = restart_count(pod, source.container)
            if run is not None:
                self._begin(msgspec.structs.replace(source, run=run))

    def _see(self, change: ObjectChange) -> None:
        """Learn how the job stands; another one of its name is not it."""
        if self._owner is not None and change.object["metadata"]["uid"] == self._owner[1]["metadata"]["uid"]:
            self._ended = change.type == "DELETED" or is_finished(change.object)

    def _is_over(self) -> bool:
        """Whether nothing more will be written: the job has ended, or without a job, all pods have."""
        if self._owner is not None:
            return self._ended
        return bool(self._alive) and not any(self._alive.values())

    # --- logs ---------------------------------------------------------------------------------------------

    def _begin(self, source: LogSource) -> None:
        if source in self._begun:
            return
        self._begun.add(source)
        self._open.add(source)
        self._titles.know(source)
        self._in_background(functools.partial(self._read, source))

    def _read(self, source: LogSource) -> None:
        reading = self._reading
        try:
            for line in read_lines(self._session, source, reading, timestamps=reading.timestamps):
                self._to_do.put(functools.partial(self._print, source, line))
        except ClusterError as problem:
            self._to_do.put(functools.partial(click.echo, error_text(problem), err=True))
        self._to_do.put(functools.partial(self._open.discard, source))

    def _print(self, source: LogSource, line: str) -> None:
        click.echo(self._titles.line(source, line))


def _raise(problem: ClusterError) -> None:
    raise problem


def is_finished(job: Object) -> bool:
    """Whether a job of any kind has ended, well or not."""
    status = job.get("status") or {}
    if status.get("phase") in _FINISHED_PHASES or status.get("stage") in _FINISHED_PHASES:
        return True
    return any(
        condition.get("type") in _FINISHED_CONDITIONS and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
