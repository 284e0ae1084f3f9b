"""`shoal logs`: logs of containers, and of all pods of a job merged into one.

Complete logs are merged by the time of each line. With -f, lines are printed as they arrive, also from pods
that start later. Each stream has its own thread, which only puts tasks into a queue; the main thread runs
them, so that no state is shared and no line is torn.
"""

import functools
import heapq
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.cli.input.options import duration_callback, selector_option, targets_argument
from shoal.cli.input.selection import (
    container_names,
    default_container,
    is_finished,
    is_owned_by,
    make_selector,
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
@targets_argument("POD|KIND/NAME [CONTAINER]")
@session_option
@selector_option
@click.option("-f", "--follow", is_flag=True, help="Stream the logs.")
@click.option("--tail", type=int, default=-1, metavar="LINES", help="Last lines of each log; -1 shows all.")
@click.option(
    "--since",
    callback=duration_callback,
    default="0s",
    metavar="DURATION",
    help="Only lines newer than this.",
)
@click.option("--since-time", default="", metavar="TIME", help="Only lines after this time (RFC 3339).")
@click.option("-p", "--previous", is_flag=True, help="Logs of the previous run of the container.")
@click.option("-c", "--container", default="", metavar="NAME", help="Logs of this container.")
@click.option("--all-containers", is_flag=True, help="Logs of all containers.")
@click.option("--timestamps", is_flag=True, help="Prefix each line with its timestamp.")
@click.option(
    "--prefix/--no-prefix", default=None, help="Prefix each line with its pod; default if there are several."
)
@click.option(
    "--limit-bytes", type=click.IntRange(0), default=0, metavar="N", help="Maximum bytes of each log."
)
def logs(session: Session, arguments: tuple[str, ...], selector: str, **values: Any) -> None:  # noqa: ANN401 - one an option
    r"""Print the logs of a container, or of all pods of a job.

    The logs of a job's pods are merged by time, each line prefixed with its pod. With -f, pods that start
    later are followed too, until the job has finished.

    \b
    Examples:
      shoal logs web
      shoal logs web -c sidecar --tail=20 -f
      shoal logs dijob/cartpole -f               all pods of a job
      shoal logs -l team=a --since=5m --prefix
    """
    if bool(arguments) == bool(selector):
        raise click.UsageError("name a pod or a job (KIND/NAME), or select pods with -l")
    max_arguments = 2
    if len(arguments) > max_arguments:
        raise click.UsageError("name one pod or job, and one container")
    if len(arguments) == max_arguments:
        values["container"] = values["container"] or arguments[1]
    print_logs(session, arguments[0] if arguments else "", selector, LogOptions(**values))


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of each log is read, and how it is printed."""

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
        """Query parameters of the request."""
        values: dict[str, str | int | bool] = {"container": container}
        values |= {"follow": True} if self.follow else {}
        values |= {"previous": True} if self.previous else {}
        values |= {"timestamps": True} if timestamps else {}
        values |= {"tailLines": self.tail} if self.tail >= 0 else {}
        values |= {"sinceSeconds": max(round(self.since), 1)} if self.since else {}
        values |= {"sinceTime": self.since_time} if self.since_time else {}
        return values | ({"limitBytes": self.limit_bytes} if self.limit_bytes else {})


class LogSource(msgspec.Struct, frozen=True):
    """One run of a container: its pod, and its restart count."""

    namespace: str
    pod: str
    container: str
    uid: str
    restarts: int = 0


def print_logs(session: Session, target: str, selector: str, options: LogOptions) -> None:
    """Print the logs of a pod, of a job's pods, or of the pods that match a selector."""
    kind, slash, name = target.rpartition("/")
    resource = session.kinds.resolve_one(kind) if slash else PODS
    if not selector and resource.full_name == PODS.full_name:
        pod = session.client.get(PODS, name, session.namespace)
        sources = log_sources(pod, options)
        if len(sources) == 1 and not options.prefix:
            _copy(session, sources[0], options)
        else:
            _print_merged(session, [pod], options)
        return
    owner = None if selector else session.client.get(resource, name, session.namespace_for(resource))
    pod_selector = make_selector(session, PODS, selector)
    if options.follow:
        LogFollower(session, pod_selector, None if owner is None else (resource, owner), options).run()
        return
    pods = [
        pod for pod in session.client.list(PODS, pod_selector) if owner is None or is_owned_by(pod, owner)
    ]
    if not pods:
        click.echo(f"No pods found in {session.namespace} namespace.", err=True)
    _print_merged(session, pods, options)


def log_sources(pod: Object, options: LogOptions, *, quiet: bool = False) -> list[LogSource]:
    """The selected containers of a pod."""
    metadata = pod["metadata"]
    if options.all_containers:
        names = container_names(pod)
    else:
        names = [options.container or default_container(pod, quiet=quiet)]
    return [LogSource(metadata["namespace"], metadata["name"], name, metadata["uid"]) for name in names]


# --- one log -----------------------------------------------------------------------------------------------


def _copy(session: Session, source: LogSource, options: LogOptions) -> None:
    """Copy one log to standard output, byte by byte."""
    path = path_of(PODS, source.namespace, source.pod, "log")
    query = options.query(source.container, timestamps=options.timestamps)
    with session.client.stream(path, query, accept="*/*") as response:
        while chunk := response.read1(2**16):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def read_lines(
    session: Session, source: LogSource, options: LogOptions, *, timestamps: bool
) -> Iterator[str]:
    """Read a log line by line."""
    path = path_of(PODS, source.namespace, source.pod, "log")
    query = options.query(source.container, timestamps=timestamps)
    with session.client.stream(path, query, accept="*/*") as response:
        while line := response.readline():
            yield line.decode(errors="replace").rstrip("\n")


# --- several logs, merged ----------------------------------------------------------------------------------


def _print_merged(session: Session, pods: list[Object], options: LogOptions) -> None:
    """Print several logs merged by time; an error of one is printed, the others go on."""
    quiet = len(pods) > 1
    sources = [source for pod in pods for source in log_sources(pod, options, quiet=quiet)]
    prefixes = LinePrefixes(enabled=len(sources) > 1 if options.prefix is None else options.prefix)
    for source in sources:
        prefixes.add(source)
    streams = [_read_timestamped(session, source, options) for source in sources]
    for timestamp, text, source in heapq.merge(*streams, key=lambda line: line[0]):
        click.echo(prefixes.line(source, f"{timestamp} {text}" if options.timestamps else text))


def _read_timestamped(
    session: Session, source: LogSource, options: LogOptions
) -> Iterator[tuple[str, str, LogSource]]:
    """Read the lines of a log with their timestamps, whose texts sort by time."""
    try:
        for line in read_lines(session, source, options, timestamps=True):
            timestamp, _, text = line.partition(" ")
            yield timestamp, text, source
    except ClusterError as problem:
        click.echo(error_text(problem), err=True)


class LinePrefixes:
    """Prefixes of lines: the pod, and the container if it has several; in colours, all equally wide."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._colours: dict[str, str] = {}
        self._pods: dict[str, set[str]] = {}
        self._width = 0

    def add(self, source: LogSource) -> None:
        """Register a source before its first line, so that the width is known."""
        self._pods.setdefault(source.pod, set()).add(source.container)
        prefix = self._prefix_of(source)
        self._colours.setdefault(prefix, PALETTE[len(self._colours) % len(PALETTE)])
        self._width = max(self._width, len(prefix))

    def line(self, source: LogSource, text: str) -> str:
        """A line with its prefix."""
        if not self._enabled:
            return text
        prefix = self._prefix_of(source)
        return f"{paint(prefix.ljust(self._width), self._colours.get(prefix, PALETTE[0]))} {text}"

    def _prefix_of(self, source: LogSource) -> str:
        multiple = len(self._pods.get(source.pod, ())) > 1
        return f"[{source.pod}/{source.container}]" if multiple else f"[{source.pod}]"


_QUEUE_SIZE: Final = 1024
"""Lines read ahead of printing: slow output blocks the streams instead of filling memory."""

Owner = tuple[Resource[Object], Object]


class LogFollower:
    """Follows the pods of a job or of a selector, and the logs of those that have started."""

    def __init__(
        self, session: Session, selector: Selector, owner: Owner | None, options: LogOptions
    ) -> None:
        self._session, self._selector, self._owner, self._options = session, selector, owner, options
        self._tasks: Final = queue.Queue[Callable[[], None]](_QUEUE_SIZE)
        self._started: Final = set[LogSource]()
        self._open: Final = set[LogSource]()
        self._prefixes: Final = LinePrefixes(enabled=options.prefix is not False)
        self._running_pods: Final[dict[str, bool]] = {}
        """Whether each pod may still write to its log, by uid."""
        self._owner_finished = owner is not None and is_finished(owner[1])

    def run(self) -> None:
        """Print all logs until the job, or without a job all pods, have finished."""
        self._run_in_thread(functools.partial(self._watch, PODS, self._selector, self._on_pod))
        if self._owner is not None:
            resource, owner = self._owner
            name, namespace = owner["metadata"]["name"], owner["metadata"].get("namespace", "")
            owner_selector = Selector(namespace, fields=f"metadata.name={name}")
            self._run_in_thread(functools.partial(self._watch, resource, owner_selector, self._on_owner))
        while True:
            while self._open or not self._is_done():
                self._tasks.get()()
            self._read_remaining()
            if not self._open:
                return

    def _read_remaining(self) -> None:
        """Start to read pods whose change had not arrived when the job finished."""
        for pod in self._session.client.list(PODS, self._selector):
            self._on_pod(ObjectChange("LISTED", pod))

    def _run_in_thread(self, target: Callable[[], None]) -> None:
        threading.Thread(target=target, daemon=True).start()

    def _watch(
        self, resource: Resource[Object], selector: Selector, handler: Callable[[ObjectChange], None]
    ) -> None:
        """Watch objects over a connection that no other thread uses."""
        try:
            client = Client(self._session.client.http.access)
            for change in Watcher(client, resource, selector).changes():
                self._tasks.put(functools.partial(handler, change))
        except ClusterError as problem:
            self._tasks.put(functools.partial(_raise, problem))

    # --- pods ---------------------------------------------------------------------------------------------

    def _on_pod(self, change: ObjectChange) -> None:
        """Start to read the containers of a pod that have started."""
        pod = change.object
        if self._owner is not None and not is_owned_by(pod, self._owner[1]):
            return
        exists = change.type != "DELETED"
        phase = (pod.get("status") or {}).get("phase")
        self._running_pods[pod["metadata"]["uid"]] = exists and phase not in FINISHED_PHASES
        for source in log_sources(pod, self._options, quiet=True) if exists else ():
            restarts = restart_count(pod, source.container)
            if restarts is not None:
                self._start(msgspec.structs.replace(source, restarts=restarts))

    def _on_owner(self, change: ObjectChange) -> None:
        """Note whether the job has finished; a recreated job of the same name is ignored."""
        if self._owner is not None and change.object["metadata"]["uid"] == self._owner[1]["metadata"]["uid"]:
            self._owner_finished = change.type == "DELETED" or is_finished(change.object)

    def _is_done(self) -> bool:
        """Whether no log will grow: the job has finished, or without a job, all pods have."""
        if self._owner is not None:
            return self._owner_finished
        return bool(self._running_pods) and not any(self._running_pods.values())

    # --- logs ---------------------------------------------------------------------------------------------

    def _start(self, source: LogSource) -> None:
        if source in self._started:
            return
        self._started.add(source)
        self._open.add(source)
        self._prefixes.add(source)
        self._run_in_thread(functools.partial(self._read, source))

    def _read(self, source: LogSource) -> None:
        options = self._options
        try:
            for line in read_lines(self._session, source, options, timestamps=options.timestamps):
                self._tasks.put(functools.partial(self._print, source, line))
        except ClusterError as problem:
            self._tasks.put(functools.partial(click.echo, error_text(problem), err=True))
        self._tasks.put(functools.partial(self._open.discard, source))

    def _print(self, source: LogSource, line: str) -> None:
        click.echo(self._prefixes.line(source, line))


def _raise(problem: ClusterError) -> None:
    raise problem
