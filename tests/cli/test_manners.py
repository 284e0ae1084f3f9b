"""The manners of the command line: words for what is wrong, help, completion, colours."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from shoal.cli.main import _COMMANDS, cli
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.resources import Resource
from tests.apiserver.http.manifests import MAP, POD, TYJOB
from tests.apiserver.http.running import Embedded, embedded_api
from tests.cli.inside import Done, inside
from tests.cli.running import SHOAL
from tests.cluster.kubernetes.test_kubeconfig import config, written


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_api(tmp_path_factory.mktemp("embedded")) as running:
        yield running


def shoal(api: Embedded, command: str, stdin: str = "") -> Done:
    return inside(*command.split(), "--kubeconfig", str(api.kubeconfig()), stdin=stdin)


# --- help --------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in _COMMANDS:
        command = cli.get_command(context, name)
        assert command
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", part) for inner, part in command.commands.items())


SPEAKING = [
    name
    for name, _ in commands()
    if name.split()[0] not in ("crds", "validate", "manager", "up", "down", "status", "node")
]


@pytest.mark.parametrize("name", SPEAKING)
def test_every_command_helps_with_examples(name: str) -> None:
    answer = inside(*name.split(), "--help")
    assert answer.code == 0
    _, heading, examples = answer.out.partition("Examples:\n")
    assert heading
    assert f"shoal {name}" in examples.splitlines()[0]


def test_kubectl_finds_it_under_its_own_name(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-shoal"
    plugin.write_text(f"#!{SHOAL[0]}\n{SHOAL[2]}\n")
    plugin.chmod(0o755)
    said = subprocess.run([plugin, "get", "--help"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    assert said.stdout.startswith("Usage: kubectl shoal get")


# --- what is wrong -----------------------------------------------------------------------------------------


WRONG = {
    "get nopes": 'error: the server doesn\'t have a resource type "nopes"',
    "get tyjob": "No resources found in default namespace.",
    "get tjyobs": "did you mean tyjobs",
    "get pods -o nonsense": "'nonsense' is not one of wide, json, yaml, name, jsonpath=TEMPLATE",
    "get pods -o jsonpath={.a": "braces do not match",
    "get pod/a b": "'b' has no kind",
    "get pod/a/b": "'pod/a/b' is not KIND/NAME",
    "get pods,cm -w": "only one kind can be watched at a time",
    "delete pods": "name pods, or choose some with -l, or all with --all",
    "delete": "name objects (KIND NAME, KIND/NAME), or files with -f",
    "wait pod/a --for=luck": "'luck' is not delete, create, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]",
    "wait pod/a --for=delete --timeout=soon": "must be a duration such as 30s",
    "label pods a": "say which label to set (a=b) or to take away (a-)",
    "label pod a b=c b-": "b: set or taken away, but not both",
    "logs": "name a pod or a job (KIND/NAME), or choose pods with -l",
    "events --types=Odd": "'Odd' is neither Normal nor Warning",
    "scale pool/a --replicas=1": 'pools.resource.aibee.cn "a" not found',
    "exec cm/a -- true": "'cm/a' is not a pod",
    "cordon": "name a node, or choose some with -l",
    "explain nothing": "there is no job 'nothing' in the plan",
}


@pytest.mark.parametrize("command, said", WRONG.items(), ids=WRONG)
def test_what_is_wrong_is_said(api: Embedded, command: str, said: str) -> None:
    if " -- " in command:
        first, _, rest = command.partition(" -- ")
        answer = inside(*first.split(), "--kubeconfig", str(api.kubeconfig()), "--", *rest.split())
    else:
        answer = shoal(api, command)
    assert answer.out == ""
    assert said in answer.err
    assert "Traceback" not in answer.err


BEFORE = {
    "-n kube-system get cm": "No resources found in kube-system namespace.",
    "--namespace=kube-system get cm": "No resources found in kube-system namespace.",
    "-n kube-system exec gone -- ls -n": 'pods "gone" not found',
    "-n kube-system top pods": "No resources found in kube-system namespace.",
}


@pytest.mark.parametrize("command, said", BEFORE.items(), ids=BEFORE)
def test_which_namespace_and_cluster_may_be_said_before_the_command(
    api: Embedded, command: str, said: str
) -> None:
    assert said in inside("--kubeconfig", str(api.kubeconfig()), *command.split()).err


def test_nothing_is_applied_if_anything_is_malformed(api: Embedded) -> None:
    bad = TYJOB.replace("counts: 2", "counts: -2").replace("name: l,", "name: L_,")
    answer = shoal(api, "apply -f -", stdin=MAP + "---" + bad + "---\n{a: b}")
    assert (answer.code, answer.out) == (2, "")
    for field in ("spec.workerSets[0].counts", "spec.leader.name", "apiVersion: is required"):
        assert field in answer.err
    assert shoal(api, "get cm conf").code == 1


def test_what_the_server_refuses_does_not_keep_the_rest(api: Embedded) -> None:
    refused = POD + "  priorityClassName: nope\n"
    answer = shoal(api, "apply -f -", stdin=refused + "---" + MAP.replace("conf", "kept"))
    assert (answer.code, answer.out) == (1, "configmap/kept created\n")
    assert answer.err.startswith("Error from server (Forbidden): error when applying")


def test_a_file_for_another_namespace_is_refused(api: Embedded) -> None:
    elsewhere = MAP.replace("{name: conf", "{namespace: other, name: conf")
    answer = shoal(api, "apply -f - -n default", stdin=elsewhere)
    assert answer.code == 1
    assert "metadata.namespace: is other, and -n says default" in answer.err


def test_a_kind_that_is_not_installed_says_how_it_is(api: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resource, "path", lambda *_: "/apis/nowhere/v1/tyjobs")
    answer = shoal(api, "get tyjobs")
    assert answer.code == 1
    assert "`shoal crds | shoal apply -f -` installs it" in answer.err


def test_objects_of_generated_names(api: Embedded) -> None:
    named = MAP.replace("name: conf", "generateName: some-")
    made = {shoal(api, "create -f -", stdin=named).out for _ in range(2)}
    assert len(made) == 2
    assert all(line.startswith("configmap/some-") and line.endswith(" created\n") for line in made)


# --- completion --------------------------------------------------------------------------------------------


def completed(api: Embedded, command: str, incomplete: str) -> list[str]:
    first, *rest = command.split()
    arguments = [first, "--kubeconfig", str(api.kubeconfig()), *rest]
    shell = ShellComplete(cli, {}, "shoal", "_SHOAL_COMPLETE")
    return [item.value for item in shell.get_completions(arguments, incomplete)]


def test_kinds_names_and_namespaces_are_completed(api: Embedded) -> None:
    assert completed(api, "get", "po") == ["poddisruptionbudgets", "pods", "pools"]
    assert completed(api, "get", "pods,ty") == ["pods,tyjobs"]
    assert completed(api, "get namespaces", "kube-p") == ["kube-public"]
    assert completed(api, "get", "ns/def") == ["ns/default"]
    assert completed(api, "get pods -n", "def") == ["default"]
    assert completed(api, "get nopes", "") == []


def test_contexts_are_completed(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config())
    shell = ShellComplete(cli, {}, "shoal", "_SHOAL_COMPLETE")
    found = shell.get_completions(["get", "--kubeconfig", path, "--context"], "")
    assert [item.value for item in found] == ["x"]


def test_whoever_cannot_be_asked_completes_nothing(tmp_path: Path) -> None:
    shell = ShellComplete(cli, {}, "shoal", "_SHOAL_COMPLETE")
    path = written(tmp_path / "config", config())
    assert shell.get_completions(["get", "--kubeconfig", path, "pods"], "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    assert "_SHOAL_COMPLETE" in inside("completion", shell).out


# --- which cluster -----------------------------------------------------------------------------------------


def test_the_embedded_home_is_meant_before_others(
    api: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", written(tmp_path / "config", config()))
    home = tmp_path / "home"
    home.mkdir()
    (home / "kubeconfig").symlink_to(api.kubeconfig())
    assert json.loads(inside("version", "--home", str(home), "-o", "json").out)["serverVersion"]
    monkeypatch.setenv("SHOAL_HOME", str(home))
    assert inside("get", "ns", "default", "-o", "name").out == "namespace/default\n"


def test_without_a_home_it_is_as_for_kubectl_unless_one_was_named(
    api: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig()))
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    assert find_access().url == api.url
    assert inside("get", "ns", "default", "-o", "name").code == 0
    named = inside("delete", "cm", "--all", "--home", str(tmp_path / "typo"))
    assert (named.code, named.out) == (1, "")
    assert f"{tmp_path}/typo is not an embedded home" in named.err


def test_there_are_no_colours_in_a_pipe(api: Embedded) -> None:
    assert "\x1b" not in shoal(api, "events -A").out
