"""Access to one job: which job a request means, and whether its caller may do that.

The order is fixed: the token is checked first (401), then whether it is for this job (403), then whether
there is such a job (404), then the generation in its id (409). So a caller without rights learns nothing.
"""

from collections.abc import Sequence
from typing import Final

from shoal.cluster.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
)
from shoal.controllers.jobs.tokens import is_job_token, token_uid
from shoal.server.callers import UserAuthority, Verb, bearer_token
from shoal.server.job_ids import JobId
from shoal.server.jobs import KindJobs, ServedJob, ServedJobs, key_of

_JOB_GONE: Final = "the job of this token no longer exists"


class Admission:
    """Checks the callers of requests about jobs."""

    def __init__(self, jobs: ServedJobs, key: bytes, users: UserAuthority) -> None:
        self._jobs: Final = jobs
        self._key: Final = key
        self._users: Final = users

    async def admit(
        self, authorization: str, own: KindJobs, readings: Sequence[JobId], verb: Verb
    ) -> ServedJob:
        """Return the job that is meant, if the caller may do `verb` with it; else a ClusterError."""
        token = bearer_token(authorization)
        if not token:
            raise UnauthorizedError(
                "a bearer token is required: the job's own (DI_SERVER_TOKEN), or a user's"
            )
        if is_job_token(token):
            job, reading = await self._by_job_token(token, own, readings)
        else:
            job, reading = await self._by_user_token(token, own, readings, verb)
        if _is_ahead(reading, job):  # perhaps the watch lags behind: the pod is of a later generation
            job = await own.read_again(job)
        if _is_ahead(reading, job):
            raise ConflictError(
                f"the id has generation {reading.generation}, but the job is in generation "
                f"{job.status.generation or 0}: use DI_JOB_ID as the pod has it, or leave the generation out"
            )
        return job

    async def _by_job_token(
        self, token: str, own: KindJobs, readings: Sequence[JobId]
    ) -> tuple[ServedJob, JobId]:
        uid = token_uid(self._key, token)
        if uid is None:
            raise UnauthorizedError("the token is not valid")
        found = self._jobs.by_uid(uid)
        if found is None:
            return await self._unreported(uid, own, readings)
        jobs, job = found
        reading = next((one for one in readings if one.key == key_of(job)), None)
        if jobs is not own or reading is None:
            raise ForbiddenError("the token is for another job: use the token of this job")
        return job, reading

    async def _unreported(
        self, uid: str, own: KindJobs, readings: Sequence[JobId]
    ) -> tuple[ServedJob, JobId]:
        """Look up a job that the watch does not have: it is new, or was deleted."""
        for reading in readings:
            job = await own.read(reading.key)
            if job is not None and job.metadata.uid == uid:
                return job, reading
        raise UnauthorizedError(_JOB_GONE)

    async def _by_user_token(
        self, token: str, own: KindJobs, readings: Sequence[JobId], verb: Verb
    ) -> tuple[ServedJob, JobId]:
        user = await self._users.identify(token)
        if user is None:
            raise UnauthorizedError("the token is not valid")
        plural = own.kind.plural
        if not readings:
            raise NotFoundError(f"this is not the id of one of the {plural}: use namespace.name[.generation]")
        job, reading = await _find_first(own, readings)
        namespace, name = reading.key
        if not await self._users.allows(user, verb, own.kind, reading.key):
            raise ForbiddenError(f"{user.username} cannot {verb} {plural} {name} in namespace {namespace}")
        if job is None:
            raise NotFoundError(f"there is no {own.kind.kind} {name} in namespace {namespace}")
        return job, reading


async def _find_first(own: KindJobs, readings: Sequence[JobId]) -> tuple[ServedJob | None, JobId]:
    """Return the first job that there is, else the first reading."""
    for reading in readings:
        job = await own.find(reading.key)
        if job is not None:
            return job, reading
    return None, readings[0]


def _is_ahead(reading: JobId, job: ServedJob) -> bool:
    return reading.generation is not None and reading.generation > (job.status.generation or 0)


def gone(authorization: str) -> ClusterError:
    """Return the error for a caller that was admitted, and whose job has been deleted since."""
    if is_job_token(bearer_token(authorization)):
        return UnauthorizedError(_JOB_GONE)
    return NotFoundError("the job was deleted, or deleted and created again")
