"""The calls about one job, after its caller was admitted: read and change replicas, report profilings.

Each returns a `Reply`, or raises a ClusterError that becomes one. Everything is checked before anything is
written, so a refused call changes nothing.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request

from shoal.api.fields import shown
from shoal.api.meta import MAX_PODS
from shoal.apiserver.http import bodies
from shoal.cluster.errors import BadRequestError, ConflictError, TooLargeError
from shoal.cluster.patches.json_patch import apply_merge_patch, make_merge_patch
from shoal.cluster.resources import Object
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import CannotScaleError, ReplicaApi
from shoal.server.jobs import KindJobs, ServedJob, ServedJobs
from shoal.server.replicas import ReplicaList, ReplicaLists, make_list
from shoal.server.trainer_status import profilings_of

WAIT_SECONDS: Final = 60.0
"""How long a request for another list of replicas waits at most."""

MAX_PROFILINGS_BYTES: Final = 64 * 1024
"""Maximum size of a job's profilings, as JSON."""

MAX_BODY_BYTES: Final = 256 * 1024
"""Maximum size of a request body: room for what profilings may hold, however it is indented."""

_DECIMAL: Final = re.compile(r"[0-9]{1,7}", re.ASCII)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every response; `code` is the HTTP status."""

    success: bool
    code: int
    message: str
    data: Any
    resource_version: str = msgspec.field(default="", name="resourceVersion")


def succeeded(message: str, data: object, *, version: str = "") -> Reply:
    """Return the reply to a call that succeeded."""
    return Reply(success=True, code=200, message=message, data=data, resource_version=version)


Call = Callable[[Request, KindJobs, ServedJob], Awaitable[Reply]]


# --- replicas ----------------------------------------------------------------------------------------------


class ReplicaCalls:
    """The calls about the replicas of the jobs of one kind."""

    def __init__(
        self, jobs: ServedJobs, own: KindJobs, api: ReplicaApi[Any], config: SchedulerConfig
    ) -> None:
        self._api: Final = api
        self._config: Final = config
        self._jobs: Final = jobs
        self._lists: Final = ReplicaLists(jobs, own, api, config)
        self._stopping = False

    def stop(self) -> None:
        """Let all waiting requests return."""
        self._stopping = True
        self._lists.wake_all()

    async def read(self, request: Request, own: KindJobs, job: ServedJob) -> Reply:
        """Return the addresses of a job's replicas; wait for others if the caller knows these."""
        listed = self._list(own, job)
        if request.query_params.get("resourceVersion") == listed.version:
            listed = await self._wait_for_other(request, own, job, listed)
        number = sum(map(bool, listed.addresses))
        text = f"{number} of {len(listed.addresses)} replicas have an address"
        return succeeded(text, listed.addresses, version=listed.version)

    async def add(self, request: Request, own: KindJobs, job: ServedJob) -> Reply:
        """Request more replicas of a job."""
        return await self._resize(own, job, _count_in_body(await read_body(request)))

    async def remove(self, request: Request, own: KindJobs, job: ServedJob) -> Reply:
        """Request fewer replicas of a job; the number is in the body or in the query."""
        text, query = await bodies.read(request, MAX_BODY_BYTES), request.query_params.getlist("replicas")
        if not query:
            return await self._resize(own, job, -_count_in_body(_object(text)))
        if text or len(query) > 1:
            raise BadRequestError("replicas is given more than once: give it in the query or in the body")
        return await self._resize(own, job, -_count_in_query(query[0]))

    async def _resize(self, own: KindJobs, job: ServedJob, change: int) -> Reply:
        size = 0

        def decide(newest: ServedJob) -> Object:
            nonlocal size
            try:
                size = self._api.requested_size(newest, change, self._config)
            except CannotScaleError as why:
                raise ConflictError(str(why)) from None
            return {"requestedReplicas": size}

        await own.change(job, decide)
        return succeeded(f"{size} replicas requested", size)

    def _list(self, own: KindJobs, job: ServedJob) -> ReplicaList:
        if own.by_uid(job.metadata.uid) is None:  # not reported yet: changes would not be noticed
            return make_list(self._api, job, self._jobs.pods_of(job), self._config)
        return self._lists.of(job)

    async def _wait_for_other(
        self, request: Request, own: KindJobs, job: ServedJob, known: ReplicaList
    ) -> ReplicaList:
        uid, changed = job.metadata.uid, asyncio.Event()
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        disconnected.add_done_callback(lambda _: changed.set())
        listed = known
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while listed.version == known.version and not (self._stopping or disconnected.done()):
                    await self._lists.wait_for_change(uid, changed)
                    changed.clear()
                    listed = self._list(own, await own.present(job))
        except TimeoutError:
            return known
        finally:
            disconnected.cancel()
        return listed


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# --- profilings --------------------------------------------------------------------------------------------


async def report_profilings(request: Request, own: KindJobs, job: ServedJob) -> Reply:
    """Merge what a worker reports into the profilings of its job."""
    data = (await read_body(request)).get("data")
    if not isinstance(data, dict):
        raise BadRequestError('the body must be {"data": {…}}: data is missing, or not an object')
    return await _merge(own, job, data)


async def report_trainer_status(request: Request, own: KindJobs, job: ServedJob) -> Reply:
    """Merge a trainer's progress into the profilings of its job."""
    return await _merge(own, job, profilings_of(await read_body(request)))


async def _merge(own: KindJobs, job: ServedJob, data: Object) -> Reply:
    def decide(newest: ServedJob) -> Object:
        before = newest.status.profilings
        after = apply_merge_patch(before, data)
        size = len(msgspec.json.encode(after))
        if size > MAX_PROFILINGS_BYTES:
            raise TooLargeError(
                f"the profilings of the job would have {size} bytes of JSON, more than "
                f"{MAX_PROFILINGS_BYTES}: report less, or remove keys by setting them to null"
            )
        patch = make_merge_patch(before, after)
        return {"profilings": patch} if patch else {}

    await own.change(job, decide)
    return succeeded("reported", None)


# --- bodies ------------------------------------------------------------------------------------------------


async def read_body(request: Request) -> Object:
    """Return the object in the body of a request; BadRequestError if there is none."""
    return _object(await bodies.read(request, MAX_BODY_BYTES))


def _object(text: bytes) -> Object:
    if not text:
        raise BadRequestError("the request has no body: a JSON object is required")
    value = bodies.decode_json(text).value
    if not isinstance(value, dict):
        raise BadRequestError("the body of the request is not a JSON object")
    return value


def _count_in_body(body: Object) -> int:
    if "replicas" not in body:
        raise BadRequestError('replicas is missing: the body must be {"replicas": n}')
    return _checked_count(body["replicas"])


def _count_in_query(text: str) -> int:
    return _checked_count(int(text) if _DECIMAL.fullmatch(text) else text)


def _checked_count(value: object) -> int:
    """Return a number of replicas; a bool or a float is none, even if it is equal to one."""
    if type(value) is not int or not 1 <= value <= MAX_PODS:
        raise BadRequestError(
            f"replicas must be an integer from 1 to {MAX_PODS}, not {shown(_as_json(value))}"
        )
    return value


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
