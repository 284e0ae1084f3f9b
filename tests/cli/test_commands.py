"""`shoal` beside `kubectl`: told the same on one cluster, they print the same."""

import re
import secrets
import shlex
from collections.abc import Iterator

import pytest

from tests.apiserver.http.running import Embedded, embedded_api
from tests.apiserver.http.test_kubectl import settled
from tests.cli.inside import Done, inside
from tests.cli.scenarios import SCENARIOS, Step
from tests.k8s.controlplane import ControlPlane

Plane = Embedded | ControlPlane
ONLY_KUBECTL = ("patch",)
"""Commands that prepare a step, and that Shoal does not have."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_api(tmp_path_factory.mktemp("embedded")) as running:
        yield running


@pytest.fixture(params=["embedded", "kubernetes"])
def plane(request: pytest.FixtureRequest) -> Plane:
    found: Plane = request.getfixturevalue("api" if request.param == "embedded" else "k8s")
    return found


def kubectl(plane: Plane, arguments: list[str], stdin: str) -> Done:
    done = plane.kubectl(*arguments, stdin=stdin)
    return Done(done.returncode, done.stdout, done.stderr)


def shoal(plane: Plane, arguments: list[str], stdin: str) -> Done:
    command, *rest = arguments
    return inside(command, "--kubeconfig", str(plane.kubeconfig()), *rest, stdin=stdin)


def answer(plane: Plane, step: Step, name: str, *, ours: bool) -> Done:
    command, *rest = (word.replace("NAME", name) for word in shlex.split(step.command))
    stdin = step.stdin.replace("NAME", name)
    # A step that names a namespace itself means that one.
    space = [] if "-n" in rest else ["-n", name]
    run = shoal if ours and command not in ONLY_KUBECTL else kubectl
    done = run(plane, [command, *space, *rest], stdin)
    return Done(done.code, *(_neutral(text, name) for text in (done.out, done.err)))


def _neutral(text: str, name: str) -> str:
    return re.sub(r" +$", "", settled(text.replace(name, "NAME")), flags=re.MULTILINE)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_shoal_answers_as_kubectl(plane: Plane, scenario: str) -> None:
    names = [f"{who}-{secrets.token_hex(4)}" for who in ("ours", "kube")]
    for name in names:
        assert plane.kubectl("create", "namespace", name).returncode == 0
    differences = []
    for step in SCENARIOS[scenario]:
        ours, theirs = (answer(plane, step, name, ours=name == names[0]) for name in names)
        if compared(step, ours) != compared(step, theirs):
            differences.append(f"$ {step.command}\nshoal:   {ours}\nkubectl: {theirs}")
    assert not differences, "\n\n".join(differences)


def compared(step: Step, done: Done) -> tuple[object, ...]:
    """What of an answer counts."""
    if step.compared == "code":
        return (bool(done.code),)
    if step.compared == "head":
        return (done.code, done.out.splitlines()[:3])
    return (done.code, done.out) if step.compared == "output" else tuple(done)
