"""The library of training processes: its place, peers, reports, resizes and stops."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.worker import Place, ServerError, Worker
from shoal.worker.peers import HostWatcher, wait_until_listening
from shoal.worker.reports import Reporter
from tests.worker.stub import TIMEOUT, StubServer, stub_server


@pytest.fixture
def server() -> Iterator[StubServer]:
    with stub_server() as stub:
        yield stub


def worker_of(server: StubServer, **more: str) -> Worker:
    variables = {"DI_SERVER_URL": server.url, "DI_JOB_ID": "ns.job.2", "DI_SERVER_TOKEN": "di.secret"}
    return Worker(variables | more)


# --- place -------------------------------------------------------------------------------------------------


def test_the_place_is_read_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "hosts.actor").write_text("a-0.svc slots=2\na-1.svc slots=2\n")
    (tmp_path / "hosts.learner").write_text("l-0.svc slots=1\n")
    worker = Worker(
        {
            "SHOAL_JOB": "train",
            "SHOAL_ROLE": "actor",
            "SHOAL_INDEX": "1",
            "SHOAL_RESTART": "3",
            "SHOAL_GRACE_SECONDS": "90",
            "SHOAL_HOSTFILE": str(tmp_path / "hosts.actor"),
        }
    )
    assert (worker.job, worker.role, worker.index, worker.rank, worker.restart) == ("train", "actor", 1, 1, 3)
    assert (worker.place.grace, worker.size) == (90.0, 2)
    assert worker.peers() == ["a-0.svc", "a-1.svc"]
    assert worker.peers("learner") == ["l-0.svc"]
    assert worker.peers("critic") == []


def test_hosts_are_read_while_their_directory_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts.actor").write_text("a-0\n")
    read_text, attempts = Path.read_text, list[Path]()

    def read(path: Path) -> str:
        attempts.append(path)
        if len(attempts) == 1:  # the link led to the old directory, which was removed then
            raise FileNotFoundError(path)
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", read)
    assert Place(role="actor", host_file=tmp_path / "hosts.actor").hosts() == ["a-0"]


def test_outside_a_job_it_is_a_group_of_one() -> None:
    worker = Worker({})
    assert (worker.role, worker.rank, worker.size, worker.peers()) == ("worker", 0, 1, ["localhost"])
    assert worker.peers("learner") == []
    worker.report(progress=1.0)
    assert worker.flush()
    with pytest.raises(ServerError):
        worker.scale(1)


# --- peers -------------------------------------------------------------------------------------------------


def test_peers_are_waited_for_until_they_listen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        lists = iter([[], ["127.0.0.9"], ["127.0.0.1", "127.0.0.9"]])
        last = ["127.0.0.1", "127.0.0.9"]
        assert wait_until_listening(lambda: next(lists, last), port, count=1, timeout=TIMEOUT) == [
            "127.0.0.1"
        ]


@pytest.mark.parametrize("hosts, count", [(["127.0.0.9"], None), (["127.0.0.1"], 2), ([], None)])
def test_peers_that_do_not_listen_are_a_timeout(hosts: list[str], count: int | None) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(TimeoutError, match="not listening"),
    ):
        wait_until_listening(lambda: hosts, listener.getsockname()[1], count=count, timeout=0.01)


def test_a_changed_list_of_hosts_is_reported_to_every_callback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="shoal.worker.peers")
    hosts, seen, reported = ["a"], list[list[str]](), threading.Event()
    watcher = HostWatcher(lambda: tuple(hosts), interval=0.001)

    def fail(_hosts: list[str]) -> None:
        raise RuntimeError

    def note(found: list[str]) -> None:
        seen.append(found)
        reported.set()

    watcher.call(fail)
    watcher.call(note)
    for change in (["a", "b"], ["a"]):
        reported.clear()
        hosts[:] = change
        assert reported.wait(TIMEOUT)
    assert seen[-1] == ["a"]
    assert ["a", "b"] in seen


# --- reports -----------------------------------------------------------------------------------------------


def test_a_report_becomes_profilings(server: StubServer) -> None:
    worker = worker_of(server)
    worker.report(progress=12.5, throughput=300.0, loss=0.1)
    assert worker.flush(TIMEOUT)
    figures = {"progress": 12.5, "throughput": 300.0, "loss": 0.1}
    assert server.requests == [("POST", "/v2alpha1/ns.job.2/profilings", "di.secret", {"data": figures})]


def test_other_jobs_report_the_status_of_a_trainer(server: StubServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("di.secret\n")
    path = "/v1/tyjobs/ns/job/trainer-status"
    variables = {"URL": f"{server.url}{path}", "TOKEN": str(tmp_path / "token")}
    worker = Worker({f"KUBEFLOW_TRAINER_SERVER_{name}": text for name, text in variables.items()})
    worker.report(progress=45.9, loss=0.5, note="warm-up")
    assert worker.flush(TIMEOUT)
    metrics = [{"name": "loss", "value": "0.5"}, {"name": "note", "value": "warm-up"}]
    body = {"trainerStatus": {"metrics": metrics, "progressPercentage": 45}}
    assert server.requests == [("POST", path, "di.secret", body)]
    with pytest.raises(ServerError, match="only workers of a DIJob"):
        worker.scale(1)


def test_the_latest_figures_are_sent_together() -> None:
    sent, gate = list[dict[str, object]](), threading.Event()

    def send(figures: object) -> None:
        assert isinstance(figures, dict)
        sent.append(dict(figures))
        gate.wait(TIMEOUT)

    reporter = Reporter(send, interval=0.0)
    reporter.report({"a": 0})
    for step in range(1, 100):
        reporter.report({"a": step, f"b{step % 2}": step})
    gate.set()
    assert reporter.flush(TIMEOUT)
    assert len(sent) <= 2
    assert {name: value for figures in sent for name, value in figures.items()} == {
        "a": 99,
        "b0": 98,
        "b1": 99,
    }


def test_figures_are_sent_again_after_an_outage(server: StubServer) -> None:
    server.replies = [(503, {"message": "not now"})]
    worker = worker_of(server)
    worker.report(progress=1)
    server.wait_for_requests(1)
    worker.report(loss=2)
    assert worker.flush(TIMEOUT)
    assert server.requests[-1][3] == {"data": {"progress": 1, "loss": 2}}


@pytest.mark.parametrize("reply", [b"", b"noise\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n[]"])
def test_a_reply_that_is_not_from_a_server_is_an_outage(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        worker = Worker({"DI_SERVER_URL": url, "DI_JOB_ID": "ns.job.2", "DI_SERVER_TOKEN": "di.secret"})
        answering = threading.Thread(target=_answer, args=(listener, reply))
        answering.start()
        with pytest.raises(ServerError) as failed:
            worker.scale(1)
        answering.join(TIMEOUT)
    assert failed.value.is_temporary


def _answer(listener: socket.socket, reply: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(reply)


def test_refused_figures_are_dropped(server: StubServer) -> None:
    server.replies = [(413, {"message": "too large"})]
    worker = worker_of(server)
    worker.report(text="long")
    server.wait_for_requests(1)
    assert worker.flush(TIMEOUT)
    worker.report(loss=1)
    assert worker.flush(TIMEOUT)
    assert [request[3]["data"] for request in server.requests] == [{"text": "long"}, {"loss": 1}]


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), object()])
def test_figures_that_are_not_json_are_errors_of_the_program(server: StubServer, figure: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        worker_of(server).report(loss=figure)


# --- scaling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change, method", [(2, "POST"), (-1, "DELETE")])
def test_a_worker_changes_the_size_of_its_job(server: StubServer, change: int, method: str) -> None:
    server.replies = [(200, {"data": 5})]
    assert worker_of(server).scale(change) == 5
    path = "/v2alpha1/ns.job.2/replicas"
    assert server.requests == [(method, path, "di.secret", {"replicas": abs(change)})]


def test_a_refused_size_is_an_error_with_the_reason(server: StubServer) -> None:
    server.replies = [(409, {"message": "maxReplicas is 3"}), (502, b"<html>")]
    worker = worker_of(server)
    with pytest.raises(ServerError, match="maxReplicas is 3") as refused:
        worker.scale(9)
    with pytest.raises(ServerError, match="HTTP status 502") as failed:
        worker.scale(9)
    assert (refused.value.is_temporary, failed.value.is_temporary) == (False, True)
    with pytest.raises(ValueError, match="0"):
        worker.scale(0)


def test_a_server_that_is_gone_is_an_error() -> None:
    with stub_server() as stub:
        worker = worker_of(stub)
    with pytest.raises(ServerError) as failed:
        worker.scale(1)
    assert failed.value.is_temporary


# --- stopping ----------------------------------------------------------------------------------------------

STOPPING = """
import sys, time
from shoal import worker

me = worker.Worker({"SHOAL_GRACE_SECONDS": "20"})
"""
CALLBACK = """
def save(deadline):
    print("saved", 15 < deadline.remaining <= 20, flush=True)

me.on_stop(save)
print("ready", flush=True)
time.sleep(600)
"""
LOOP = """
assert me.stop_deadline is None
print("ready", flush=True)
while me.stop_deadline is None:
    time.sleep(0.01)
print("saved", me.stop_deadline.remaining <= 20, flush=True)
sys.exit(7)
"""


@pytest.mark.parametrize("program, code", [(CALLBACK, 143), (LOOP, 7)], ids=["callback", "loop"])
def test_a_process_that_is_asked_to_stop_has_time_for_a_checkpoint(program: str, code: int) -> None:
    command = [sys.executable, "-c", STOPPING + program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - this interpreter
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=TIMEOUT)
    assert (out, process.returncode) == ("saved True\n", code)


LAST_REPORT = """
import os
from shoal import worker

worker.current().report(progress=100)
"""


def test_the_last_report_is_sent_at_exit(server: StubServer) -> None:
    variables = {"DI_SERVER_URL": server.url, "DI_JOB_ID": "ns.job", "DI_SERVER_TOKEN": "t"}
    subprocess.run([sys.executable, "-c", LAST_REPORT], env=os.environ | variables, check=True)  # noqa: S603 - this interpreter
    assert [body for *_, body in server.requests] == [{"data": {"progress": 100}}]


# --- dependencies ------------------------------------------------------------------------------------------

BARE = """
import sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top != "shoal" and top not in sys.stdlib_module_names:
            raise ImportError(f"{name} is not in the standard library")

sys.meta_path.insert(0, Refusal())
import shoal.worker
shoal.worker.current().report(progress=1)
others = {name for name in sys.modules if name.startswith("shoal.") and name.split(".")[1] != "worker"}
assert not others, others
"""


def test_it_needs_the_standard_library_alone() -> None:
    source = Path(__file__).parents[2] / "src"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(source)!r})\n{BARE}"]
    subprocess.run(command, check=True)  # noqa: S603 - this interpreter


def test_a_place_outside_a_job_has_the_usual_grace_period() -> None:
    assert Place.read({}).grace == 30.0
