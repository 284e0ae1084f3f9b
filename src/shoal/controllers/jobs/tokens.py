"""Bearer tokens by which the pods of a job report to the server, and the key that they are derived from.

A token names the uid of its job and has a MAC over it, so that a token can be made and checked from the key
alone: nothing is stored for a check, and the token of a deleted job opens nothing, not even a new job of the
same name. Controllers make tokens, and put them into a secret for the job's pods; the server checks them.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final

from shoal.api.managed import ManagedMeta
from shoal.cluster.errors import AlreadyExistsError, InternalError, NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import SECRETS, Object
from shoal.controllers.jobs.names import dns_label, uid_digits

SYSTEM_NAMESPACE: Final = "kube-system"
KEY_SECRET: Final = "shoal-server"  # noqa: S105 - the name of a secret
TOKEN_FIELD: Final = "token"  # noqa: S105 - the name of a field
"""Field of a job's secret that has the token."""

_KEY_FIELD: Final = "key"
_KEY_BYTES: Final = 32
_PREFIX: Final = "di"


# --- tokens ------------------------------------------------------------------------------------------------


def is_job_token(token: str) -> bool:
    """Return whether a bearer token has the form of a job token; users' tokens have other forms."""
    return token.startswith(f"{_PREFIX}.")


def job_token(key: bytes, uid: str) -> str:
    """Return the token of the job with a uid."""
    mac = hmac.digest(key, uid.encode(), hashlib.sha256)
    return f"{_PREFIX}.{uid}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def token_uid(key: bytes, token: str) -> str | None:
    """Return the uid of the job that a token belongs to; None if the token is not valid."""
    uid = token.removeprefix(f"{_PREFIX}.").rpartition(".")[0]
    expected = job_token(key, uid).encode()
    return uid if hmac.compare_digest(token.rstrip("=").encode(), expected) else None


def token_secret_name(job: ManagedMeta) -> str:
    """Return the name of the secret with a job's token: `di-<job label>-<8 digits of its uid>`."""
    return f"{_PREFIX}-{dns_label(job.name, job.uid)}-{uid_digits(job.uid)}"


# --- the key -----------------------------------------------------------------------------------------------


async def fetch_key(cluster: Cluster) -> bytes:
    """Return the key of a cluster; the first process that needs it creates it.

    InternalError if the secret has no valid key: a new one would void the tokens of all running jobs.
    """
    try:
        found = await cluster.get(SECRETS, KEY_SECRET, SYSTEM_NAMESPACE)
    except NotFoundError:
        found = await _create_key(cluster)
    return _key_of(found)


async def _create_key(cluster: Cluster) -> Object:
    body = {
        "metadata": {"name": KEY_SECRET, "namespace": SYSTEM_NAMESPACE},
        "type": "Opaque",
        "data": {_KEY_FIELD: base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()},
    }
    try:
        return await cluster.create(SECRETS, body)
    except AlreadyExistsError:  # another process was faster: its key is the one that counts
        return await cluster.get(SECRETS, KEY_SECRET, SYSTEM_NAMESPACE)


def _key_of(secret: Object) -> bytes:
    try:
        key = base64.b64decode((secret.get("data") or {}).get(_KEY_FIELD) or "")
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise InternalError(
            f"secret {SYSTEM_NAMESPACE}/{KEY_SECRET} has no key of {_KEY_BYTES} bytes in data.{_KEY_FIELD}: "
            "delete it and the secrets of jobs (label shoal.io/job-uid); running jobs need new pods then"
        )
    return key
