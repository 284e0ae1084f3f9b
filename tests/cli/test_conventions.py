"""Conventions of the command line: help, error messages, completion, selection of the cluster, colours."""

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
from tests.apiserver.http.api_server import Embedded, embedded_api
from tests.apiserver.http.manifests import MAP, POD, TYJOB
from tests.cli.in_process import Result, invoke
from tests.cli.process import SHOAL
from tests.cluster.kubernetes.test_kubeconfig import config, write_config


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_api(tmp_path_factory.mktemp("embedded")) as running:
        yield running


def shoal(api: Embedded, command: str, stdin: str = "") -> Result:
    return invoke(*command.split(), "--kubeconfig", str(api.kubeconfig()), stdin=stdin)


# --- help --------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in _COMMANDS:
        command = cli.get_command(context, name)
        assert command
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", part) for inner, part in command.commands.items())


CLUSTER_COMMANDS = [
    name
    for name, _ in commands()
    if name.split()[0] not in ("crds", "validate", "manager", "server", "up", "down", "status", "node")
]


@pytest.mark.parametrize("name", CLUSTER_COMMANDS)
def test_help_of_every_command_has_examples(name: str) -> None:
    result = invoke(*name.split(), "--help")
    assert result.code == 0
    _, heading, examples = result.out.partition("Examples:\n")
    assert heading
    assert f"shoal {name}" in examples.splitlines()[0]


def test_plugin_shows_kubectl_in_its_usage(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-shoal"
    plugin.write_text(f"#!{SHOAL[0]}\n{SHOAL[2]}\n")
    plugin.chmod(0o755)
    done = subprocess.run([plugin, "get", "--help"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    assert done.stdout.startswith("Usage: kubectl shoal get")


# --- error messages ----------------------------------------------------------------------------------------


ERRORS = {
    "get nopes": 'error: the server doesn\'t have a resource type "nopes"',
    "get tyjob": "No resources found in default namespace.",
    "get tjyobs": "did you mean tyjobs",
    "get pods -o nonsense": "'nonsense' is not one of wide, json, yaml, name, jsonpath=TEMPLATE",
    "get pods -o jsonpath={.a": "braces do not match",
    "get pod/a b": "'b' has no kind",
    "get pod/a/b": "'pod/a/b' is not KIND/NAME",
    "get pods,cm -w": "only one kind can be watched at a time",
    "delete pods": "name pods, select some with -l, or all with --all",
    "delete": "name objects (KIND NAME, KIND/NAME), or files with -f",
    "wait pod/a --for=luck": "'luck' is not delete, create, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]",
    "wait pod/a --for=delete --timeout=soon": "must be a duration such as 30s",
    "label pods a": "specify at least one label: KEY=VALUE sets it, KEY- removes it",
    "label pod a b=c b-": "b: cannot be both set and removed",
    "logs": "name a pod or a job (KIND/NAME), or select pods with -l",
    "events --types=Odd": "'Odd' is neither Normal nor Warning",
    "scale pool/a --replicas=1": 'pools.resource.aibee.cn "a" not found',
    "exec cm/a -- true": "'cm/a' is not a pod",
    "cordon": "name a node, or select some with -l",
    "explain nothing": "there is no job 'nothing' in the plan",
}


@pytest.mark.parametrize("command, message", ERRORS.items(), ids=ERRORS)
def test_error_messages(api: Embedded, command: str, message: str) -> None:
    if " -- " in command:
        first, _, rest = command.partition(" -- ")
        result = invoke(*first.split(), "--kubeconfig", str(api.kubeconfig()), "--", *rest.split())
    else:
        result = shoal(api, command)
    assert result.out == ""
    assert message in result.err
    assert "Traceback" not in result.err


OPTIONS_FIRST = {
    "-n kube-system get cm": "No resources found in kube-system namespace.",
    "--namespace=kube-system get cm": "No resources found in kube-system namespace.",
    "-n kube-system exec gone -- ls -n": 'pods "gone" not found',
    "-n kube-system top pods": "No resources found in kube-system namespace.",
}


@pytest.mark.parametrize("command, message", OPTIONS_FIRST.items(), ids=OPTIONS_FIRST)
def test_cluster_options_may_precede_the_command(api: Embedded, command: str, message: str) -> None:
    assert message in invoke("--kubeconfig", str(api.kubeconfig()), *command.split()).err


def test_nothing_is_applied_if_one_object_is_invalid(api: Embedded) -> None:
    bad = TYJOB.replace("counts: 2", "counts: -2").replace("name: l,", "name: L_,")
    result = shoal(api, "apply -f -", stdin=MAP + "---" + bad + "---\n{a: b}")
    assert (result.code, result.out) == (2, "")
    for field in ("spec.workerSets[0].counts", "spec.leader.name", "apiVersion: is required"):
        assert field in result.err
    assert shoal(api, "get cm conf").code == 1


def test_a_rejected_object_does_not_stop_the_others(api: Embedded) -> None:
    refused = POD + "  priorityClassName: nope\n"
    result = shoal(api, "apply -f -", stdin=refused + "---" + MAP.replace("conf", "kept"))
    assert (result.code, result.out) == (1, "configmap/kept created\n")
    assert result.err.startswith("Error from server (Forbidden): error when applying")


def test_an_object_of_another_namespace_is_rejected(api: Embedded) -> None:
    elsewhere = MAP.replace("{name: conf", "{namespace: other, name: conf")
    result = shoal(api, "apply -f - -n default", stdin=elsewhere)
    assert result.code == 1
    assert "metadata.namespace: is other, but -n selects default; pass -n other" in result.err


def test_error_of_a_missing_kind_says_how_to_install_it(
    api: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Resource, "path", lambda *_: "/apis/nowhere/v1/tyjobs")
    result = shoal(api, "get tyjobs")
    assert result.code == 1
    assert "`shoal crds | shoal apply -f -` installs it" in result.err


def test_create_generates_names(api: Embedded) -> None:
    named = MAP.replace("name: conf", "generateName: some-")
    made = {shoal(api, "create -f -", stdin=named).out for _ in range(2)}
    assert len(made) == 2
    assert all(line.startswith("configmap/some-") and line.endswith(" created\n") for line in made)


# --- completion --------------------------------------------------------------------------------------------


def complete(api: Embedded, command: str, incomplete: str) -> list[str]:
    first, *rest = command.split()
    arguments = [first, "--kubeconfig", str(api.kubeconfig()), *rest]
    shell = ShellComplete(cli, {}, "shoal", "_SHOAL_COMPLETE")
    return [item.value for item in shell.get_completions(arguments, incomplete)]


def test_kinds_names_and_namespaces_are_completed(api: Embedded) -> None:
    assert complete(api, "get", "po") == ["poddisruptionbudgets", "pods", "pools"]
    assert complete(api, "get", "pods,ty") == ["pods,tyjobs"]
    assert complete(api, "get namespaces", "kube-p") == ["kube-public"]
    assert complete(api, "get", "ns/def") == ["ns/default"]
    assert complete(api, "get pods -n", "def") == ["default"]
    assert complete(api, "get nopes", "") == []


def test_contexts_are_completed(tmp_path: Path) -> None:
    path = write_config(tmp_path / "config", config())
    shell = ShellComplete(cli, {}, "shoal", "_SHOAL_COMPLETE")
    found = shell.get_completions(["get", "--kubeconfig", path, "--context"], "")
    assert [item.value for item in found] == ["x"]


def test_an_unreachable_cluster_completes_nothing(tmp_path: Path) -> None:
    shell = ShellComplete(cli, {}, "shoal", "_SHOAL_COMPLETE")
    path = write_config(tmp_path / "config", config())
    assert shell.get_completions(["get", "--kubeconfig", path, "pods"], "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    assert "_SHOAL_COMPLETE" in invoke("completion", shell).out


# --- which cluster -----------------------------------------------------------------------------------------


def test_the_embedded_cluster_comes_before_kubeconfig(
    api: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", write_config(tmp_path / "config", config()))
    home = tmp_path / "home"
    home.mkdir()
    (home / "kubeconfig").symlink_to(api.kubeconfig())
    assert json.loads(invoke("version", "--home", str(home), "-o", "json").out)["serverVersion"]
    monkeypatch.setenv("SHOAL_HOME", str(home))
    assert invoke("get", "ns", "default", "-o", "name").out == "namespace/default\n"


def test_kubeconfig_is_used_without_a_home_unless_home_is_given(
    api: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig()))
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    assert find_access().url == api.url
    assert invoke("get", "ns", "default", "-o", "name").code == 0
    named = invoke("delete", "cm", "--all", "--home", str(tmp_path / "typo"))
    assert (named.code, named.out) == (1, "")
    assert f"{tmp_path}/typo is not an embedded home" in named.err


def test_there_are_no_colours_in_a_pipe(api: Embedded) -> None:
    assert "\x1b" not in shoal(api, "events -A").out
