"""kubectl against the embedded API, compared with a real API server."""

import re
import secrets
import shlex
import subprocess
from collections.abc import Callable
from typing import Final

import pytest

from tests.apiserver.http.api_server import Embedded
from tests.apiserver.http.scenarios import SCENARIOS, Step
from tests.k8s.assets import assets
from tests.k8s.controlplane import ControlPlane

Kubectl = Callable[..., subprocess.CompletedProcess[str]]

CHANGING: Final = (
    (
        r"(?m)^[IE]\d{4} .*(very short watch|Failed to watch.*context deadline exceeded).*\n",
        "",
    ),  # race in kubectl: which part notices the end of its timeout first
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000)", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000", "TIME"),
    (r"(resourceVersion\"?:|Resource Version:) *\"?\d+\"?", r"\1 VERSION"),
    (r"(?<![\w.-])(\d+[smhdy]){1,2}(?![\w.-])", "AGE"),
    (r"(LIVE|MERGED)-\d+", r"\1"),
    (r"127\.0\.0\.1:\d+", "HOST"),
    (r"[ \t]+", " "),
)
"""Patterns of values that differ from run to run, and their placeholders."""

FIELD: Final = re.compile(r"^ *\w+\t<.*$", re.MULTILINE)
"""A field in the output of `kubectl explain`."""


def normalized(text: str) -> str:
    for pattern, instead in CHANGING:
        text = re.sub(pattern, instead, text)
    return text


def run_step(kubectl: Kubectl, step: Step, name: str) -> tuple[int, str, str]:
    arguments = [argument.replace("NAME", name) for argument in shlex.split(step.command)]
    done = kubectl("-n", name, *arguments, stdin=step.stdin.replace("NAME", name))
    shown = "\n".join(FIELD.findall(done.stdout)) if step.fields else done.stdout
    return done.returncode, normalized(shown), normalized(done.stderr)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_kubectl_output_is_that_of_kubernetes(
    api: Embedded, k8s: ControlPlane, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    monkeypatch.setenv(
        "KUBE_EDITOR", "sed -i -e s/nginx:9/nginx:8/ -e s/BinPack/Gang/ -e 's/^  a: .*/  a: edited/'"
    )
    name = f"kubectl-{secrets.token_hex(4)}"
    for plane in (api, k8s):
        assert plane.kubectl("create", "namespace", name).returncode == 0
    for step in SCENARIOS[scenario]:
        ours, theirs = (run_step(plane.kubectl, step, name) for plane in (api, k8s))
        if step.differs:
            assert ours != theirs, f"no longer another answer: {step.command}"
        else:
            assert ours == theirs, step.command


def test_kubectl_watches_changes(api: Embedded, k8s: ControlPlane) -> None:
    seen = [watch_output(plane) for plane in (api, k8s)]
    assert seen[0] == seen[1]


def watch_output(plane: Embedded | ControlPlane) -> list[str]:
    """Return the output of `kubectl get -w` for a few changes."""
    name = f"watch-{secrets.token_hex(4)}"
    maps = f"/api/v1/namespaces/{name}/configmaps"
    client = plane.client()
    client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    client.create(maps, {"metadata": {"name": "a"}})
    command = [str(assets("kubectl") / "kubectl"), "-n", name, "get", "cm", "-w", "--output-watch-events"]
    watching = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--kubeconfig", str(plane.kubeconfig())], stdout=subprocess.PIPE, text=True
    )
    with watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline(), watching.stdout.readline()]
        client.create(maps, {"metadata": {"name": "b"}})
        lines.append(watching.stdout.readline())
        client.call("PATCH", f"{maps}/b", {"data": {"x": "y"}}, media="application/merge-patch+json")
        lines.append(watching.stdout.readline())
        client.call("DELETE", f"{maps}/a")
        lines.append(watching.stdout.readline())
        watching.terminate()
    return [normalized(line) for line in lines]
