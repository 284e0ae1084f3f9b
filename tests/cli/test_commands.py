"""`shoal` compared with `kubectl`: the same commands on one cluster print the same."""

import re
import secrets
import shlex
from collections.abc import Iterator

import pytest

from tests.apiserver.http.api_server import Embedded, embedded_api
from tests.apiserver.http.test_kubectl import normalized
from tests.cli.in_process import Result, invoke
from tests.cli.scenarios import SCENARIOS, Step
from tests.k8s.controlplane import ControlPlane

Plane = Embedded | ControlPlane
ONLY_KUBECTL = ("patch",)
"""Commands that prepare a step, and that Shoal lacks."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_api(tmp_path_factory.mktemp("embedded")) as running:
        yield running


@pytest.fixture(params=["embedded", "kubernetes"])
def plane(request: pytest.FixtureRequest) -> Plane:
    found: Plane = request.getfixturevalue("api" if request.param == "embedded" else "k8s")
    return found


def kubectl(plane: Plane, arguments: list[str], stdin: str) -> Result:
    result = plane.kubectl(*arguments, stdin=stdin)
    return Result(result.returncode, result.stdout, result.stderr)


def shoal(plane: Plane, arguments: list[str], stdin: str) -> Result:
    command, *rest = arguments
    return invoke(command, "--kubeconfig", str(plane.kubeconfig()), *rest, stdin=stdin)


def run_step(plane: Plane, step: Step, name: str, *, ours: bool) -> Result:
    command, *rest = (word.replace("NAME", name) for word in shlex.split(step.command))
    stdin = step.stdin.replace("NAME", name)
    # A step may name another namespace itself.
    space = [] if "-n" in rest else ["-n", name]
    run = shoal if ours and command not in ONLY_KUBECTL else kubectl
    result = run(plane, [command, *space, *rest], stdin)
    return Result(result.code, *(_normalize(text, name) for text in (result.out, result.err)))


def _normalize(text: str, name: str) -> str:
    return re.sub(r" +$", "", normalized(text.replace(name, "NAME")), flags=re.MULTILINE)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_shoal_prints_the_same_as_kubectl(plane: Plane, scenario: str) -> None:
    names = [f"{prefix}-{secrets.token_hex(4)}" for prefix in ("ours", "kube")]
    for name in names:
        assert plane.kubectl("create", "namespace", name).returncode == 0
    differences = []
    for step in SCENARIOS[scenario]:
        ours, theirs = (run_step(plane, step, name, ours=name == names[0]) for name in names)
        if compared(step, ours) != compared(step, theirs):
            differences.append(f"$ {step.command}\nshoal:   {ours}\nkubectl: {theirs}")
    assert not differences, "\n\n".join(differences)


def compared(step: Step, result: Result) -> tuple[object, ...]:
    """The compared part of a result."""
    if step.compared == "code":
        return (bool(result.code),)
    if step.compared == "head":
        return (result.code, result.out.splitlines()[:3])
    return (result.code, result.out) if step.compared == "output" else tuple(result)
