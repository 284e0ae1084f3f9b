"""How soon commands are there: `shoal up` beside what it imports, `shoal get` beside an empty Python."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from daemons import AROUND, BIN, daemon
from measuring import TURNS, Row

_IMPORTS = """
import asyncio, click, cryptography.x509, msgspec, numpy, prometheus_client, sqlite3, sys, uvloop, yaml
import starlette.requests, starlette.responses, uvicorn.protocols.http.httptools_impl, websockets.server
sqlite3.connect(sys.argv[1]).execute("PRAGMA journal_mode = WAL")
"""


def start_to_ready(place: Path) -> Row:
    """From the command to its word that it is up, in a home that is there already."""
    home = place / "home"
    _up(home)
    taken, floor = _least(lambda: _up(home), lambda: _python(_IMPORTS, str(place / "bare.db")))
    return Row(f"{taken:.2f} s", f"{floor:.2f} s", f"{taken / floor:.1f}", "≤ 1 s")


def until_asked(place: Path) -> Row:
    """From `shoal get pods` to the first byte that a server sees of it."""
    taken, floor = _least(lambda: _get(place), lambda: _python("pass"))
    return Row(f"{taken * 1e3:.0f} ms", f"{floor * 1e3:.0f} ms", f"{taken / floor:.1f}", "≤ 100 ms")


def _least(*sides: Callable[[], float]) -> list[float]:
    """The least that each side has taken, by its own word; they take turns."""
    turns = [[side() for side in sides] for _ in range(TURNS)]
    return [min(taken) for taken in zip(*turns, strict=True)]


def _up(home: Path) -> float:
    start = time.perf_counter()
    with daemon(home):
        return time.perf_counter() - start


def _python(code: str, *arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], env=AROUND, check=True)  # noqa: S603
    return time.perf_counter() - start


def _get(place: Path) -> float:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kubeconfig = place / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(listener.getsockname()[1])))
        command = [str(BIN / "shoal"), "get", "pods", "--kubeconfig", str(kubeconfig)]
        start = time.perf_counter()
        with subprocess.Popen(command, env=AROUND, stderr=subprocess.DEVNULL) as asking:  # noqa: S603
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1)
                taken = time.perf_counter() - start
            asking.kill()
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
