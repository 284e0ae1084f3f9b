"""How soon a command speaks: from its start to the first byte that reaches the server.

The floor is the same interpreter that does nothing but connect and send a byte. Beside it stand what the
command imports, and what it would wait for if it used the libraries that it does without.

    python benchmarks/start.py [--runs 20]
"""

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SEND: Final = "import socket; socket.create_connection(('127.0.0.1', {port})).sendall(b'x')"
_SHOAL: Final = "from shoal.cli.main import main; main()"
_PATIENCE: Final = 60.0


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as directory, listener() as (server, port):
        kubeconfig = write_kubeconfig(Path(directory), port)
        commands = {
            "bare interpreter": [_SEND.format(port=port)],
            "shoal get pods": [_SHOAL, "get", "pods", "--kubeconfig", kubeconfig],
            "shoal get pods -A -o json": [
                _SHOAL,
                "get",
                "pods",
                "-A",
                "-o",
                "json",
                "--kubeconfig",
                kubeconfig,
            ],
            "with aiohttp": ["import aiohttp; " + _SEND.format(port=port)],
            "with kubernetes_asyncio": ["import kubernetes_asyncio.client; " + _SEND.format(port=port)],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs + 1):  # in turn, so that a busy moment of the machine hits all
            for name, command in commands.items():
                taken[name].append(first_byte(server, [sys.executable, "-c", *command]))
    floor = statistics.median(taken["bare interpreter"][1:])
    print(f"{'':28}{'median':>10}{'of the floor':>14}")
    for name, times in taken.items():
        middle = statistics.median(times[1:])  # the first writes bytecode
        print(f"{name:28}{middle * 1000:>7.0f} ms{middle / floor:>13.1f}×")


def first_byte(server: socket.socket, command: list[str]) -> float:
    """Seconds from the start of a process until its first byte is here; then it is left without an answer."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):  # noqa: S603 - our own
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1)
            return time.perf_counter() - begun


@contextlib.contextmanager
def listener() -> Iterator[tuple[socket.socket, int]]:
    """Somebody to speak to, and the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_PATIENCE)
        yield server, server.getsockname()[1]


def write_kubeconfig(directory: Path, port: int) -> str:
    """A kubeconfig that says nothing unusual."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


if __name__ == "__main__":
    main()
