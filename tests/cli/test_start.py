"""Start-up time of commands: small commands import no heavy modules."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.apiserver.http.api_server import Embedded, embedded_api

HEAVY = ("aiohttp", "asyncio", "kubernetes_asyncio", "numpy", "rich", "websockets", "yaml")
PROGRAM = """
import sys
from shoal.cli.main import main
try:
    main(sys.argv[1:])
finally:
    found = [name for name in {heavy} if name in sys.modules]
    print("imported:", *found, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_api(tmp_path_factory.mktemp("embedded")) as running:
        yield running


@pytest.mark.parametrize(
    "command",
    [
        "get pods",
        "get pods,tyjobs -A -o wide",
        "get ns default -o json",
        "label ns default a=b --overwrite",
        "delete pod nope --ignore-not-found",
        "wait ns default --for=jsonpath={.status.phase}=Active",
        "events",
        "cordon -l a=b",
        "version",
        "describe ns default",
    ],
)
def test_small_commands_import_nothing_heavy(api: Embedded, command: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(heavy=HEAVY)]
    done = subprocess.run(  # noqa: S603 - our own command
        [*program, *command.split(), "--kubeconfig", str(api.kubeconfig())],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1].split()) == (0, ["imported:"]), done.stderr
