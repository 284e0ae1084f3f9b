"""The DI server of `shoal up`, asked by the workers of a job with what is in their environment."""

import base64
import contextlib
import json
import shlex
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from shoal.controllers.jobs.tokens import job_token
from tests.cli.daemon import up, url
from tests.cli.process import SHOAL, shoal
from tests.cli.test_up_pods import wait_for
from tests.k8s.access import Client

GROUP = "/apis/diengine.opendilab.org/v2alpha1/namespaces/default/dijobs"
SECRETS = "/api/v1/namespaces/default/secrets"

WORKER = """
import json, os, time, urllib.request
def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["DI_SERVER_URL"] + path, data, method=method)
    request.add_header("Authorization", "Bearer " + os.environ["DI_SERVER_TOKEN"])
    return json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60))
me = "/v2alpha1/" + os.environ["DI_JOB_ID"]
if os.environ["DI_RANK"] == "0":
    print(call("POST", me + "/replicas", {"replicas": 1})["message"], flush=True)
    reply = call("GET", me + "/replicas")
    while not all(reply["data"]) or len(reply["data"]) < 2:
        reply = call("GET", me + "/replicas?resourceVersion=" + reply["resourceVersion"])
    call("POST", me + "/profilings", {"data": {"peers": reply["data"]}})
    print("reported", flush=True)
time.sleep(600)
"""


def dijob(name: str, python: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    container = {"name": "w", "image": "x", "command": ["python3", "-c", python]}
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [container]}}, **spec},
    }


def api(home: Path) -> Client:
    tls = ssl.create_default_context(cafile=home / "ca.crt")
    return Client(url(home), (home / "token").read_text(), tls)


def status_of(client: Client, name: str) -> dict[str, Any]:
    status: dict[str, Any] = client.get(f"{GROUP}/{name}").get("status", {})
    return status


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    config = tmp_path / "scheduler.yaml"
    config.write_text("elasticPolicy: fit\n")
    with up(tmp_path / "home", "--config", str(config)):
        yield tmp_path / "home"


def test_a_worker_asks_for_another_one_and_reports_its_address(home: Path) -> None:
    client = api(home)
    job = client.create(GROUP, dijob("job", WORKER, preemptible=True, minReplicas=1, maxReplicas=3))
    wait_for(lambda: "profilings" in status_of(client, "job"))
    status = status_of(client, "job")
    assert status["requestedReplicas"] == 2
    assert len(status["allocation"]) == 2
    pods = [client.get(f"/api/v1/namespaces/default/pods/job-0-{rank}") for rank in (0, 1)]
    assert status["profilings"]["peers"] == [f"{pod['status']['podIP']}:22270" for pod in pods]
    _check_that_the_token_is_nowhere_else(home, client, job, pods)


def _check_that_the_token_is_nowhere_else(
    home: Path, client: Client, job: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    [secret] = [one for one in client.get(SECRETS)["items"] if one["metadata"].get("ownerReferences")]
    key = client.get("/api/v1/namespaces/kube-system/secrets/shoal-server")["data"]["key"]
    token = job_token(base64.b64decode(key), job["metadata"]["uid"])
    assert base64.b64decode(secret["data"]["token"]).decode() == token
    logs = "".join(shoal("logs", f"job-0-{rank}", "--home", str(home)).stdout for rank in (0, 1))
    assert logs == "2 replicas requested\nreported\n"
    events = client.get("/api/v1/namespaces/default/events")
    shown = json.dumps([pods, client.get(f"{GROUP}/job"), events]) + logs
    shown += shoal("describe", "dijob", "job", "--home", str(home)).stdout
    assert "DI_SERVER_TOKEN" in shown
    assert token.rpartition(".")[2] not in shown


def test_the_secret_of_a_finished_job_is_removed(home: Path) -> None:
    client = api(home)
    client.create(GROUP, dijob("short", "import os; assert os.environ['DI_SERVER_TOKEN']"))
    wait_for(lambda: status_of(client, "short").get("phase") == "Succeeded")
    wait_for(lambda: client.get(SECRETS)["items"] == [])


TRAINER = """
import json, os, time, urllib.request
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"], encoding="utf-8").read().strip()
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
metrics = {"loss": 0.25, "current_step": 450, "total_steps": 1000, "current_epoch": 1.5}
status = {"lastUpdatedTime": "2026-01-23T10:30:45.123456+00:00", "progressPercentage": 45}
status["estimatedRemainingSeconds"] = 60
status["metrics"] = [{"name": str(name), "value": str(value)} for name, value in metrics.items()]
data = json.dumps({"trainerStatus": status}).encode("utf-8")
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
request = urllib.request.Request(url, data=data, headers=headers, method="POST")
with urllib.request.urlopen(request, timeout=60, context=None) as response:
    assert response.status == 200
"""  # what the callback of Hugging Face Transformers does


def tyjob(name: str, python: str) -> dict[str, Any]:
    command = {"containers": [{"name": "w", "image": "x", "command": ["python3", "-c", python]}]}
    idle = {"containers": [{"name": "w", "image": "x", "command": ["sleep", "600"]}]}
    return {
        "apiVersion": "tyrl.io/v1alpha1",
        "kind": "TYJob",
        "metadata": {"name": name},
        "spec": {
            "leader": {"name": "learner", "template": {"spec": command}},
            "workerSets": [{"name": "actor", "counts": 1, "template": {"spec": idle}}],
        },
    }


def trainingjob(name: str, python: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}
    trainer = {"min-instance": 1, "max-instance": 1, "resources": resources}
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"image": "x", "trainer": trainer | {"entrypoint": f"python3 -c {shlex.quote(python)}"}},
    }


@pytest.mark.parametrize("make", [dijob, tyjob, trainingjob])
def test_a_trainer_of_hugging_face_reports_its_progress(
    make: Callable[[str, str], dict[str, Any]], home: Path
) -> None:
    client, job = api(home), make("train", TRAINER)
    path = f"/apis/{job['apiVersion']}/namespaces/default/{job['kind'].lower()}s"
    client.create(path, job)

    def status() -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"{path}/train").get("status", {})
        return found

    wait_for(lambda: {"Succeeded", "Failed"} & {status().get("phase"), status().get("stage")})
    assert status().get("phase", status().get("stage")) == "Succeeded"
    assert status()["profilings"] == {
        "progress": 45,
        "estimated_remaining_seconds": 60,
        "last_updated_time": "2026-01-23T10:30:45.123456+00:00",
        "metrics": {"loss": 0.25, "current_step": 450, "total_steps": 1000, "current_epoch": 1.5},
        "current_step": 450,
        "total_steps": 1000,
    }


LAST_WORDS = """
import json, os, signal, sys, time, urllib.request
def report(*_):
    url = os.environ["DI_SERVER_URL"] + "/v2alpha1/" + os.environ["DI_JOB_ID"] + "/profilings"
    request = urllib.request.Request(url, json.dumps({"data": {"stopped": True}}).encode(), method="POST")
    request.add_header("Authorization", "Bearer " + os.environ["DI_SERVER_TOKEN"])
    urllib.request.urlopen(request, timeout=60)
    sys.exit(0)
signal.signal(signal.SIGTERM, report)
print("waiting", flush=True)
while True:
    time.sleep(60)
"""


def test_a_worker_may_report_while_the_home_is_stopped(tmp_path: Path) -> None:
    """After a restart the server has the same key and address: what pods were given stays valid."""
    with up(tmp_path):
        client = api(tmp_path)
        client.create(GROUP, dijob("job", LAST_WORDS))
        wait_for(lambda: "waiting" in shoal("logs", "job-0-0", "--home", str(tmp_path)).stdout)
    with up(tmp_path):
        assert status_of(api(tmp_path), "job")["profilings"] == {"stopped": True}


def test_a_killed_daemon_loses_and_doubles_no_request(tmp_path: Path) -> None:
    """One client adds one after another; at most the request that was not answered may count besides."""
    sizes: list[int] = []
    enough = threading.Event()

    def add_until_it_fails(client: Client) -> None:
        with contextlib.suppress(OSError, HTTPException):
            while True:
                _, reply = client.call("POST", "/v2alpha1/default.job/replicas", {"replicas": 1})
                sizes.append(reply["data"])
                if len(sizes) == 20:
                    enough.set()

    with up(tmp_path) as daemon:
        api(tmp_path).create(GROUP, dijob("job", "", preemptible=True, maxReplicas=5000, suspend=True))
        address = json.loads(shoal("status", "-o", "json", "--home", str(tmp_path)).stdout)["server"]
        worker = Client(address, (tmp_path / "token").read_text(), ssl.create_default_context())
        thread = threading.Thread(target=add_until_it_fails, args=[worker])
        thread.start()
        assert enough.wait(60)
        daemon.kill()
        thread.join()
    with up(tmp_path):
        size = status_of(api(tmp_path), "job")["requestedReplicas"]
    assert sizes == list(range(sizes[0], sizes[0] + len(sizes)))
    assert size in (sizes[-1], sizes[-1] + 1)


REFUSED = {
    "a key without a certificate": (["--tls-private-key-file", "{file}"], 2, "needs --tls-cert-file"),
    "no certificate in the file": (["--tls-cert-file", "{file}"], 1, "not a certificate with its key"),
    "no such file": (["--tls-cert-file", "{file}.pem"], 2, "does not exist"),
    "an address of another machine": (["--listen", "192.0.2.1"], 1, "cannot listen on port"),
}


@pytest.mark.parametrize("options, code, message", REFUSED.values(), ids=REFUSED)
def test_options_of_the_command_that_cannot_be(
    options: list[str], code: int, message: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("nothing")
    given = [option.format(file=tmp_path / "file") for option in options]
    done = shoal("server", "--home", str(home), "--port", "0", *given)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


def test_the_command_serves_a_home_too(home: Path) -> None:
    """Its users are asked for by reviews, as on Kubernetes."""
    api(home).create(GROUP, dijob("job", "", suspend=True))
    command = [*SHOAL, "server", "--home", str(home), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        assert process.stdout
        address = process.stdout.readline().rpartition(" ")[2].strip()
        for token, code in (((home / "token").read_text(), 200), ("wrong", 401)):
            client = Client(address, token, ssl.create_default_context())
            assert client.call("GET", "/v2alpha1/default.job/replicas")[0] == code
        process.terminate()
        assert process.wait() == 0
