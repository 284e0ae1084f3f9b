"""Job ids: their readings, and which of them is meant."""

import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.server.job_ids import JobId, exact_job_id, read_job_id
from tests.server.serving import ADMIN, Server, di_server, home

READINGS = {
    "ns.job": [("ns", "job", None)],
    "ns.job.0": [("ns", "job", 0), ("ns", "job.0", None)],
    "ns.my.job": [("ns", "my.job", None)],
    "ns.my.job.12": [("ns", "my.job", 12), ("ns", "my.job.12", None)],
    "ns.7": [("ns", "7", None)],
    "ns.7.8": [("ns", "7", 8), ("ns", "7.8", None)],
    "ns.job.007": [("ns", "job", 7), ("ns", "job.007", None)],
    "ns.job.-1": [],
    "ns.job.1e3": [("ns", "job.1e3", None)],
    "ns.job.٣": [],  # a digit, but not an ASCII one
    "job": [],
    "": [],
    ".": [],
    "ns.": [],
    ".job": [],
    "ns..job": [],
    "ns.job.": [],
    "NS.job": [],
    "n s.job": [],
    "ns/x.job": [],
}


@pytest.mark.parametrize("text, readings", READINGS.items(), ids=READINGS)
def test_readings(text: str, readings: list[tuple[str, str, int | None]]) -> None:
    assert read_job_id(text) == tuple(JobId((space, name), number) for space, name, number in readings)


def test_texts_that_are_too_long_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            assert read_job_id(f"ns.{number}{'x' * 60_000}") == ()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_longest_id_has_a_reading() -> None:
    namespace, name = "n" * 63, ".".join(["j" * 62] * 4)
    assert read_job_id(f"{namespace}.{name}.{2**63}")[0] == JobId((namespace, name), 2**63)


@given(st.text(max_size=80))
def test_any_text_has_at_most_two_readings_and_all_are_of_it(text: str) -> None:
    readings = read_job_id(text)
    assert len(readings) <= 2
    for (namespace, name), generation in readings:
        assert (
            text == f"{namespace}.{name}" if generation is None else text.startswith(f"{namespace}.{name}.")
        )
        assert exact_job_id(namespace, name) == (JobId((namespace, name)),)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with the jobs `a` (generation 5), `a.1`, `a.1.2` and `b.1`."""
    async with home("embedded", tmp_path) as cluster, di_server(cluster) as running:
        for name in ("a", "a.1", "a.1.2", "b.1"):
            job = await running.create(name)
            await running.set_status(job, requestedReplicas=4, generation=5 if name == "a" else 0)
        yield running


MEANT = {  # the name in the id, the job whose token is used, the job that is meant or a status
    "digits are a generation before they are part of a name": ("a.1", "", "a"),
    "they are part of the name if there is no other job": ("b.1", "", "b.1"),
    "the job of the token counts first": ("a.1", "a.1", "a.1"),
    "also if the shorter name is its job's": ("a.1", "a", "a"),
    "with a generation after a name that ends in digits": ("a.1.0", "a.1", "a.1"),
    "a name that ends in two numbers": ("a.1.2", "a.1.2", "a.1.2"),
    "the generation of a job that is not there yet": ("a.1.2", "", 409),
    "the token of a job that the id cannot mean": ("a", "a.1", 403),
    "the token of a job of another name": ("b.1", "a", 403),
    "the token of a job, and no id": ("", "a", 403),
}


@pytest.mark.parametrize("name, token, meant", MEANT.values(), ids=MEANT)
async def test_which_job_is_meant(name: str, token: str, meant: str | int, server: Server) -> None:
    jobs = {key[1]: job for key, job in server.jobs.kinds["dijobs"].store.items.items()}
    used = server.token({"metadata": {"uid": jobs[token].metadata.uid}}) if token else ADMIN
    answer = await server.ask("POST", f"/v2alpha1/default.{name}/replicas", {"replicas": 1}, token=used)
    if isinstance(meant, int):
        assert (answer.status, answer.data) == (meant, None)
        return
    assert answer.status == 200, answer
    for other in jobs:
        status = await server.status({"metadata": {"name": other, "namespace": "default"}})
        assert status["requestedReplicas"] == (5 if other == meant else 4)
