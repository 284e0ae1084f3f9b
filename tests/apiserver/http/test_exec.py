"""Exec through the API, with kubectl and with a WebSocket client."""

import json
import os
import pty
import shlex
import ssl
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from socket import SHUT_RDWR

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.apiserver.http.pods import PATIENCE, Playground, kubectl, playground, wait_until

SPACE, POD = "default", "shell"
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
MORE_THAN_A_PIPE_HOLDS = 80_000


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    with playground(tmp_path_factory.mktemp("exec")) as found:
        if found.api.ask("GET", f"/api/v1/namespaces/{SPACE}").code == 404:
            found.api.client().create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
        found.pod(SPACE, POD, "exec sleep 100000")
        yield found


COMMANDS = {
    "sh -c 'echo out; echo err >&2'": (0, "out\n", "err\n"),
    "sh -c 'exit 7'": (7, "", "command terminated with exit code 7\n"),
    "sh -c 'kill -9 $$'": (137, "", "command terminated with exit code 137\n"),
    "sh -c 'echo $GREETING'": (0, "hello\n", ""),
    "basename $PWD": (0, "$PWD\n", ""),
    "sh -c 'basename $PWD'": (0, "place\n", ""),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_kubectl_runs(ground: Playground, command: str) -> None:
    done = ground.api.kubectl("exec", POD, "--", *shlex.split(command))
    assert (done.returncode, done.stdout, done.stderr) == COMMANDS[command]


def test_a_missing_command_is_named_in_the_error(ground: Playground) -> None:
    done = ground.api.kubectl("exec", POD, "--", "no-such-command")
    assert done.returncode != 0
    assert "no-such-command" in done.stderr


def test_input_is_read_to_its_end(ground: Playground) -> None:
    done = ground.api.kubectl("exec", "-i", POD, "--", "sh", "-c", "cat; echo end", stdin="some\ninput\n")
    assert (done.returncode, done.stdout) == (0, "some\ninput\nend\n")


def test_files_are_copied_in_and_out(ground: Playground, tmp_path: Path) -> None:
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(3_000_000))
    there = f"{POD}:{ground.place}/copied"
    for source, target in ((str(sent), there), (there, str(back))):
        done = ground.api.kubectl("cp", source, target)
        assert done.returncode == 0, done.stderr
    assert back.read_bytes() == sent.read_bytes()


def test_a_terminal_has_a_size_and_takes_input(ground: Playground) -> None:
    ours, theirs = pty.openpty()
    command = kubectl(ground, "exec", "-it", POD, "--", "sh")
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as typing:  # noqa: S603
        os.close(theirs)
        os.write(ours, b"tty >/dev/null && echo is''-a-terminal; exit 3\n")
        assert b"is-a-terminal" in read_all(ours)
    os.close(ours)
    assert typing.returncode == 3


def read_all(terminal: int) -> bytes:
    """Read from a terminal until its other end is closed."""
    found = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end of the terminal is closed
            return found
        found += piece
        if not piece:
            return found


def test_a_command_is_killed_when_its_client_disconnects(ground: Playground) -> None:
    script = "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"
    with subprocess.Popen(kubectl(ground, "exec", POD, "--", "sh", "-c", script)) as client:  # noqa: S603
        wait_until((ground.place / "pid").exists, "the command runs")
        client.kill()
    process = Path("/proc", (ground.place / "pid").read_text().strip())
    wait_until(lambda: not process.exists(), "the command has ended")


def test_clients_without_websockets_get_a_remedy(ground: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")
    done = ground.api.kubectl("exec", POD, "--", "true")
    assert done.returncode == 1
    assert "exec requires a WebSocket; use kubectl 1.31 or newer" in done.stderr


# --- without kubectl ---------------------------------------------------------------------------------------


def socket(ground: Playground, query: str, *protocols: str, token: str = "") -> ClientConnection:
    credentials = ground.api.credentials
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    # This client reads and writes in two threads, and Python's TLS 1.3 may then never send the request.
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    return connect(
        f"{ground.api.url.replace('https', 'wss')}/api/v1/namespaces/{SPACE}/pods/{POD}/{query}",
        ssl=tls,
        subprotocols=[Subprotocol(protocol) for protocol in protocols] or None,
        additional_headers={"Authorization": f"Bearer {token or credentials.token}"},
        open_timeout=PATIENCE,
        max_size=None,
        compression=None,
    )


def command(script: str, *streams: str) -> str:
    said = [("command", part) for part in ("sh", "-c", script)]
    return "exec?" + urllib.parse.urlencode([*said, *((stream, "true") for stream in streams)])


def messages_by_channel(client: ClientConnection) -> dict[int, bytes]:
    """Collect the messages of each channel."""
    found: dict[int, bytes] = {}
    for message in client:
        assert isinstance(message, bytes)
        found[message[0]] = found.get(message[0], b"") + message[1:]
    return found


def test_streams_have_channels_and_a_status_is_last(ground: Playground) -> None:
    with socket(ground, command("echo out; echo err >&2; exit 3", "stdout", "stderr"), V5) as client:
        found = messages_by_channel(client)
    assert (found[1], found[2]) == (b"out\n", b"err\n")
    assert json.loads(found[3]) == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: exit status 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }


def test_only_requested_streams_are_sent(ground: Playground) -> None:
    with socket(ground, command("echo out; echo err >&2", "stderr"), V5) as client:
        found = messages_by_channel(client)
    assert found == {2: b"err\n", 3: b'{"metadata":{},"status":"Success"}'}


@pytest.mark.parametrize("offered", [(V5, V4), (V4, V5), ("unknown", V4)], ids=" ".join)
def test_the_first_supported_subprotocol_is_chosen(ground: Playground, offered: tuple[str, ...]) -> None:
    with socket(ground, command("true", "stdout"), *offered) as client:
        assert client.subprotocol == next(protocol for protocol in offered if protocol in (V5, V4))


def test_input_ends_when_its_channel_is_closed(ground: Playground) -> None:
    with socket(ground, command("cat", "stdin", "stdout"), V5) as client:
        client.send(b"\0some")
        client.send(b"\0 input")
        client.send(b"\xff\0")
        assert messages_by_channel(client)[1] == b"some input"


def test_a_terminal_can_be_resized(ground: Playground) -> None:
    script = "until [ $(stty size | cut -d' ' -f1) = 33 ]; do sleep 0.01; done; stty size"
    with socket(ground, command(script, "stdin", "stdout", "tty"), V5) as client:
        client.send(b'\4{"Width":44,"Height":33}')
        assert messages_by_channel(client)[1].split() == [b"33", b"44"]


def test_invalid_messages_are_ignored(ground: Playground) -> None:
    with socket(ground, command("cat", "stdin", "stdout", "tty"), V5) as client:
        for nonsense in (b"", b"\4", b"\4nonsense", b'\4{"Width":"wide"}', b"\7?", b"\xff\1", b"\xff", "?"):
            client.send(nonsense)
        client.send(b"\0still here\n\4")  # end of input (Ctrl-D)
        assert b"still here" in messages_by_channel(client)[1]


def test_a_command_that_reads_no_input_is_killed_when_its_client_disconnects(ground: Playground) -> None:
    with socket(ground, command("echo $$; exec sleep 1000", "stdin", "stdout"), V5) as client:
        pid = client.recv()
        assert isinstance(pid, bytes)
        for _ in range(4):
            client.send(b"\0" + bytes(MORE_THAN_A_PIPE_HOLDS))
        client.socket.shutdown(SHUT_RDWR)
    process = Path("/proc", pid[1:].decode().strip())
    wait_until(lambda: not process.exists(), "the command has ended")


def test_exec_in_a_terminated_container_is_not_found(ground: Playground) -> None:
    ground.pod(SPACE, "over", "true")
    ground.ended(ground.kubelet.find_run(SPACE, "over", "a"))
    done = ground.api.kubectl("exec", "over", "--", "true")
    assert (done.returncode, done.stderr) == (
        1,
        'error: unable to upgrade connection: container not found ("a")\n',
    )


REFUSED: dict[str, tuple[str, tuple[str, ...], str, int, str]] = {
    "an unknown subprotocol": (
        command("true", "stdout"),
        ("v6.channel.k8s.io",),
        "",
        400,
        "v6.channel",
    ),
    "no protocol": (command("true", "stdout"), (), "", 400, "not none"),
    "no command": ("exec?stdout=true", (V5,), "", 400, "you must specify a command"),
    "no stream": (command("true"), (V5,), "", 400, "at least 1 of stdin, stdout, stderr"),
    "an unknown container": ("exec?command=x&stdout=1&container=q", (V5,), "", 400, "is not valid"),
    "a wrong token": (command("true", "stdout"), (V5,), "wrong", 401, "Unauthorized"),
    "another subresource": ("log?follow=true", (V5,), "", 400, "WebSockets are only supported for exec"),
    "attach": ("attach?stdout=true", (V5,), "", 405, "kubectl logs -f"),
    "port-forward": ("portforward?ports=80", (V5,), "", 405, "runs on this machine"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_status_before_the_handshake(ground: Playground, case: str) -> None:
    query, protocols, token, code, words = REFUSED[case]
    with pytest.raises(InvalidStatus) as refusal, socket(ground, query, *protocols, token=token):
        pass
    status = json.loads(refusal.value.response.body or b"{}")
    assert (refusal.value.response.status_code, status["code"]) == (code, code)
    assert words in status["message"]
