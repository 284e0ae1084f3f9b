"""Tokens of jobs: how they are made and checked, their key, and where they must not show."""

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.managed import ManagedMeta
from shoal.cluster.errors import InternalError
from shoal.cluster.resources import SECRETS
from shoal.controllers.jobs.server_access import ServerAccess
from shoal.controllers.jobs.tokens import (
    KEY_SECRET,
    SYSTEM_NAMESPACE,
    fetch_key,
    is_job_token,
    job_token,
    token_secret_name,
    token_uid,
)
from tests.server.serving import DIJOBS, Server, di_server, home, secret_texts

UID = "0123abcd-0000-0000-0000-000000000000"
KEY = bytes(range(32))
REPLICAS = "/v2alpha1/default.job/replicas"

uids = st.uuids().map(str)
keys = st.binary(min_size=32, max_size=32)


def test_a_token_is_the_uid_with_its_mac() -> None:
    mac = base64.urlsafe_b64encode(hmac.new(KEY, UID.encode(), hashlib.sha256).digest()).decode().rstrip("=")
    assert job_token(KEY, UID) == f"di.{UID}.{mac}"


@given(keys, uids)
def test_a_token_is_valid_with_its_key(key: bytes, uid: str) -> None:
    token = job_token(key, uid)
    assert is_job_token(token)
    assert token_uid(key, token) == uid


@given(keys, keys, uids, uids)
def test_a_token_is_not_valid_with_another_key_or_for_another_job(
    key: bytes, other: bytes, uid: str, another: str
) -> None:
    token = job_token(key, uid)
    assert token_uid(other, token) == (uid if other == key else None)
    assert token_uid(key, token.replace(uid, another)) == (uid if another == uid else None)


@given(st.text())
def test_no_text_is_a_valid_token_by_chance(text: str) -> None:
    assert token_uid(KEY, f"di.{text}") is None


SECRET_NAMES = {
    "cartpole": "di-cartpole-0123abcd",
    "my.job": "di-my-job-0123abcd-0123abcd",
    "j" * 100: f"di-{'j' * 54}-0123abcd-0123abcd",
}


@pytest.mark.parametrize("name, expected", SECRET_NAMES.items())
def test_the_name_of_a_secret(name: str, expected: str) -> None:
    assert token_secret_name(ManagedMeta(name=name, uid=UID)) == expected


def test_an_access_does_not_show_its_key() -> None:
    assert "key" not in repr(ServerAccess("http://127.0.0.1:1", b"the key"))


# --- the key -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["embedded", "simulated"])
async def test_processes_that_need_the_key_at_the_same_time_get_the_same(where: str, tmp_path: Path) -> None:
    async with home(where, tmp_path) as cluster:
        found = await asyncio.gather(*(fetch_key(cluster) for _ in range(10)))
        secret = await cluster.get(SECRETS, KEY_SECRET, SYSTEM_NAMESPACE)
    assert {len(key) for key in found} == {32}
    assert {base64.b64encode(key).decode() for key in found} == {secret["data"]["key"]}


async def test_a_key_survives_a_restart(tmp_path: Path) -> None:
    async with home("embedded", tmp_path) as cluster:
        first = await fetch_key(cluster)
    async with home("embedded", tmp_path) as cluster:
        assert await fetch_key(cluster) == first


@pytest.mark.parametrize("data", [{}, {"key": "c2hvcnQ="}, {"other": "eA=="}])
async def test_a_damaged_key_is_not_replaced(data: dict[str, str], tmp_path: Path) -> None:
    async with home("embedded", tmp_path) as cluster:
        metadata = {"name": KEY_SECRET, "namespace": SYSTEM_NAMESPACE}
        await cluster.create(SECRETS, {"metadata": metadata, "data": data})
        with pytest.raises(InternalError, match="delete it"):
            await fetch_key(cluster)


# --- jobs --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["embedded", "simulated"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    async with home(request.param, tmp_path) as cluster, di_server(cluster) as running:
        yield running


async def test_a_job_may_change_itself_only(server: Server) -> None:
    one, other = await server.create("job"), await server.create("other")
    for method, path, body in (
        ("GET", REPLICAS, None),
        ("POST", REPLICAS, {"replicas": 1}),
        ("POST", "/v2alpha1/default.job/profilings", {"data": {"a": 1}}),
        ("POST", "/v1/dijobs/default/job/trainer-status", {"trainerStatus": {"progressPercentage": 1}}),
    ):
        assert (await server.ask(method, path, body, token=server.token(other))).status == 403
        assert (await server.ask(method, path, body, token=server.token(one))).status == 200
    assert await server.status(other) == {}


async def test_the_token_of_a_deleted_job_opens_nothing(server: Server) -> None:
    job = await server.create()
    token = server.token(job)
    await server.cluster.delete(DIJOBS, "job", "default")
    assert (await server.ask("POST", REPLICAS, {"replicas": 1}, token=token)).status == 401
    again = await server.create()
    answer = await server.ask("POST", REPLICAS, {"replicas": 1}, token=token)
    assert (answer.status, answer.message) == (401, "the job of this token no longer exists")
    assert await server.status(again) == {}


async def test_a_job_is_known_as_soon_as_it_has_been_created(server: Server) -> None:
    """The first pod of a job may call before the server's watch has reported the job."""
    spec = {
        "template": {"spec": {"containers": [{"name": "w", "image": "x"}]}},
        "preemptible": True,
        "maxReplicas": 3,
    }
    job = await server.cluster.create(
        DIJOBS, {"metadata": {"name": "job", "namespace": "default"}, "spec": spec}
    )
    answer = await server.ask("POST", REPLICAS, {"replicas": 1}, token=server.token(job))
    assert (answer.status, answer.data) == (200, 2)


async def test_secrets_show_in_no_answer_status_or_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    job = await server.create()
    token = server.token(job)
    seen = [
        await server.ask(method, path, body, token=used)
        for used in (token, token[:-1], f"{token}x", token.upper())
        for method, path, body in (
            ("GET", REPLICAS, None),
            ("POST", REPLICAS, {"replicas": 100}),
            ("POST", "/v2alpha1/default.other/profilings", {"data": {}}),
            ("POST", f"/v2alpha1/default.{token}/profilings", {}),
        )
    ]
    pages = [await server.ask("GET", path) for path in ("/metrics", "/openapi.json", "/readyz")]
    shown = f"{seen} {pages} {await server.status(job)} {caplog.text}"
    assert [text for text in secret_texts(server.key, job) if text in shown] == []
