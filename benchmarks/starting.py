"""Start-up time of commands: `shoal up` compared to its imports, `shoal get` to an empty Python."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from daemons import BIN, ENVIRONMENT, daemon
from measuring import ROUNDS, Row

_IMPORTS = """
import asyncio, click, cryptography.x509, msgspec, numpy, prometheus_client, sqlite3, sys, uvloop, yaml
import starlette.requests, starlette.responses, uvicorn.protocols.http.httptools_impl, websockets.server
sqlite3.connect(sys.argv[1]).execute("PRAGMA journal_mode = WAL")
"""


def up_until_ready(directory: Path) -> Row:
    """From the command to its message that it is up, in an existing home."""
    home = directory / "home"
    _up(home)
    taken, floor = _best_times(lambda: _up(home), lambda: _python(_IMPORTS, str(directory / "bare.db")))
    return Row(f"{taken:.2f} s", f"{floor:.2f} s", f"{taken / floor:.1f}", "≤ 1 s")


def get_until_request(directory: Path) -> Row:
    """From `shoal get pods` to the first byte that a server receives."""
    taken, floor = _best_times(lambda: _get(directory), lambda: _python("pass"))
    return Row(f"{taken * 1e3:.0f} ms", f"{floor * 1e3:.0f} ms", f"{taken / floor:.1f}", "≤ 100 ms")


def _best_times(*functions: Callable[[], float]) -> list[float]:
    """The shortest time that each function returns, in seconds; they alternate."""
    rounds = [[function() for function in functions] for _ in range(ROUNDS)]
    return [min(taken) for taken in zip(*rounds, strict=True)]


def _up(home: Path) -> float:
    start = time.perf_counter()
    with daemon(home):
        return time.perf_counter() - start


def _python(code: str, *arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], env=ENVIRONMENT, check=True)  # noqa: S603
    return time.perf_counter() - start


def _get(directory: Path) -> float:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(listener.getsockname()[1])))
        command = [str(BIN / "shoal"), "get", "pods", "--kubeconfig", str(kubeconfig)]
        start = time.perf_counter()
        with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:  # noqa: S603
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1)
                taken = time.perf_counter() - start
            process.kill()
    return taken


def _kubeconfig(port: int) -> dict[str, object]:
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "none"}}],
    }
