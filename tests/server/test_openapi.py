"""The OpenAPI document: requests that are generated from it get only responses that it describes."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from shoal.apiserver.registry.registry import Registry
from shoal.kinds.base import job_kinds
from shoal.server.callers import Administrator
from shoal.server.openapi import openapi_document
from shoal.server.serving import ServerOptions, serving_jobs
from tests.server.serving import ADMIN, DIJOBS, TEMPLATE

DOCUMENT = openapi_document([kind.plural for kind in job_kinds().values() if kind.reports])
Case = schemathesis.Case[Any]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server, in a thread of its own, that has the preemptible job `default/job`."""
    found: list[str] = []
    ready, done = threading.Event(), threading.Event()

    async def main() -> None:
        async with Registry() as registry:
            spec = {"preemptible": True, "maxReplicas": 1000, "template": TEMPLATE}
            await registry.create(DIJOBS, {"metadata": {"name": "job"}, "spec": spec})
            options = ServerOptions(key=bytes(32), users=Administrator(ADMIN))
            async with serving_jobs(registry, options) as server:
                found.append(server.url)
                ready.set()
                await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(60)
    yield found[0]
    done.set()
    thread.join()


def check(case: Case, url: str) -> None:
    """Send a request and check the response.

    Unknown parameters of a query are accepted. A JSON Schema cannot say that 1.0 is no integer here.
    """
    parts = case.meta.components.items() if case.meta else ()
    negative = {location.name for location, part in parts if part.mode.is_negative}
    excluded: list[CheckFunction] = [] if "BODY" in negative else [negative_data_rejection]
    if case.path.endswith("replicas"):
        excluded.append(positive_data_acceptance)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    case.call_and_validate(base_url=url, headers=headers, excluded_checks=excluded)


@SCHEMA.parametrize()
@settings(max_examples=30)
def test_generated_requests(case: Case, url: str) -> None:
    check(case, url)


@SCHEMA.parametrize()
@settings(max_examples=30)
def test_generated_requests_about_a_job(case: Case, url: str) -> None:
    known = {"jobId": "default.job", "kind": "dijobs", "namespace": "default", "name": "job"}
    case.path_parameters = {name: known[name] for name in case.path_parameters or {}}
    check(case, url)
