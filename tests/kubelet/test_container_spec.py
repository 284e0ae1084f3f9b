"""The environment of a container: tables of pod specs and the resulting variables."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.resources import Object
from shoal.kubelet.container_spec import EnvironmentContext, build_environment
from shoal.kubelet.nodes import LocalNode
from shoal.kubelet.references import (
    ConfigError,
    LocalReference,
    PodLocation,
    collect_references,
    expand_variables,
)

HOST = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C.UTF-8",
    "KUBECONFIG": "/secret",
    "SHOAL_HOME": "/secret",
    "AWS_TOKEN": "secret",
}
NODE = LocalNode(name="n1", cpu=4000, memory=2**30)
WORDS: Object = {"kind": "ConfigMap", "data": {"a": "1", "b.c": "2", "0bad": "3"}}
KEYS: Object = {"kind": "Secret", "data": {"k": base64.b64encode(b"hush").decode()}}
SOURCES = {
    LocalReference("ConfigMap", "words"): WORDS,
    LocalReference("Secret", "keys"): KEYS,
    LocalReference("ConfigMap", "none"): None,
}
CONTEXT = EnvironmentContext(location=PodLocation(node=NODE, ip="127.5.0.1"), sources=SOURCES, host_env=HOST)


def pod(container: Object, **spec: object) -> Object:
    metadata = {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "labels": {"app": "x"},
        "annotations": {"note": "n"},
    }
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def environment_of(**container: object) -> dict[str, str]:
    manifest = {"name": "main", **container}
    return build_environment(pod(manifest), manifest, CONTEXT)


def env(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def by_field(path: str) -> Object:
    return {"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def by_key(kind: str, name: str, key: str, **more: object) -> Object:
    return {"name": "V", "valueFrom": {kind: {"name": name, "key": key, **more}}}


def by_resource(resource: str, divisor: str = "0", **more: object) -> Object:
    return {
        "name": "V",
        "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor, **more}},
    }


VALUES = {
    "a text": (env("V", "x"), "x"),
    "no value": ({"name": "V"}, ""),
    "the name of the pod": (by_field("metadata.name"), "p"),
    "its namespace": (by_field("metadata.namespace"), "ns"),
    "its uid": (by_field("metadata.uid"), "u"),
    "a label": (by_field("metadata.labels['app']"), "x"),
    "an annotation": (by_field("metadata.annotations['note']"), "n"),
    "a missing label": (by_field("metadata.labels['none']"), ""),
    "its address": (by_field("status.podIP"), "127.5.0.1"),
    "its node": (by_field("spec.nodeName"), "n1"),
    "a key of a config map": (by_key("configMapKeyRef", "words", "a"), "1"),
    "a key of a secret": (by_key("secretKeyRef", "keys", "k"), "hush"),
    "an optional key": (by_key("configMapKeyRef", "words", "z", optional=True), None),
    "an optional config map": (by_key("configMapKeyRef", "none", "a", optional=True), None),
    "a limit": (by_resource("limits.memory"), "1048576"),
    "a limit with a divisor": (by_resource("limits.memory", "1Mi"), "1"),
    "a request that is rounded up": (by_resource("requests.cpu"), "1"),
    "a request in millicores": (by_resource("requests.cpu", "1m"), "250"),
    "a missing limit is the node's capacity": (by_resource("limits.cpu"), "4"),
}


@pytest.mark.parametrize("variable, value", VALUES.values(), ids=VALUES)
def test_values(variable: Object, value: str | None) -> None:
    resources = {"limits": {"memory": "1Mi"}, "requests": {"cpu": "250m"}}
    assert environment_of(env=[variable], resources=resources).get("V") == value


MISSING = {
    "a config map": (by_key("configMapKeyRef", "none", "a"), 'configmap "none" not found'),
    "a key": (by_key("configMapKeyRef", "words", "z"), "couldn't find key z in ConfigMap ns/words"),
    "a key of a secret": (by_key("secretKeyRef", "keys", "z"), "couldn't find key z in Secret ns/keys"),
}


@pytest.mark.parametrize("variable, message", MISSING.values(), ids=MISSING)
def test_missing_references_are_errors(variable: Object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        environment_of(env=[variable])


EXPANSIONS = {
    "a variable": ("$(A)", "1"),
    "in the middle": ("x$(A)y$(B)z", "x1y2z"),
    "an unknown variable": ("$(C)", "$(C)"),
    "an escaped variable": ("$$(A)", "$(A)"),
    "a dollar": ("$", "$"),
    "the shell's own": ("$A ${A} $(echo)", "$A ${A} $(echo)"),
    "not closed": ("$(A", "$(A"),
}


@pytest.mark.parametrize("text, expanded", EXPANSIONS.values(), ids=EXPANSIONS)
def test_expansion(text: str, expanded: str) -> None:
    assert expand_variables(text, {"A": "1", "B": "2"}) == expanded


@given(st.text(alphabet="ab$() "))
def test_doubled_dollars_are_literal(text: str) -> None:
    assert expand_variables(text.replace("$", "$$"), {"a": "1", "b": "2"}) == text


def test_variables_expand_earlier_variables() -> None:
    variables = [env("A", "$(B)"), env("B", "2"), env("C", "$(B)-$(SHOAL_POD_NAME)"), env("B", "3")]
    assert environment_of(env=variables).items() >= {"A": "$(B)", "B": "3", "C": "2-p"}.items()


def test_env_from() -> None:
    seen = environment_of(
        envFrom=[{"configMapRef": {"name": "words"}}, {"prefix": "K_", "secretRef": {"name": "keys"}}]
    )
    assert seen.items() >= {"a": "1", "b.c": "2", "K_k": "hush"}.items()
    assert "0bad" not in seen


def test_credentials_of_the_administrator_are_not_inherited() -> None:
    seen = environment_of()
    assert not {"KUBECONFIG", "SHOAL_HOME", "AWS_TOKEN"} & seen.keys()
    assert "/secret" not in seen.values()
    assert (seen["PATH"], seen["HOME"], seen["LC_ALL"]) == ("/bin", "/home/me", "C.UTF-8")


def test_a_virtual_environment_is_first_in_the_path(tmp_path: Path) -> None:
    manifest = pod({"name": "main"})
    manifest["metadata"]["annotations"]["shoal.io/venv"] = str(tmp_path)
    with pytest.raises(ConfigError, match="is not a virtual environment"):
        build_environment(manifest, manifest["spec"]["containers"][0], CONTEXT)
    tmp_path.joinpath("bin").mkdir()
    seen = build_environment(manifest, manifest["spec"]["containers"][0], CONTEXT)
    assert (seen["VIRTUAL_ENV"], seen["PATH"]) == (str(tmp_path), f"{tmp_path}/bin:/bin")


@pytest.mark.parametrize("gpus, seen", [(None, None), ((), ""), ((2, 3), "2,3")])
def test_visible_gpus(gpus: tuple[int, ...] | None, seen: str | None) -> None:
    context = EnvironmentContext(location=CONTEXT.location, sources={}, host_env={}, gpus=gpus)
    assert (
        build_environment(pod({"name": "main"}), {"name": "main"}, context).get("CUDA_VISIBLE_DEVICES")
        == seen
    )


@pytest.mark.parametrize(
    "peers, seen", [({}, None), ({"a": "127.1.0.1", "b": "127.1.0.2"}, "a=127.1.0.1,b=127.1.0.2")]
)
def test_peer_addresses_where_names_do_not_resolve(peers: dict[str, str], seen: str | None) -> None:
    context = EnvironmentContext(location=CONTEXT.location, sources={}, host_env={}, peers=peers)
    assert build_environment(pod({"name": "main"}), {"name": "main"}, context).get("SHOAL_PEERS") == seen


def test_collected_references() -> None:
    container = {
        "name": "main",
        "envFrom": [{"configMapRef": {"name": "a"}}],
        "env": [by_key("secretKeyRef", "b", "k"), by_field("metadata.name")],
    }
    volumes = [
        {"name": "v", "configMap": {"name": "c"}},
        {"name": "w", "projected": {"sources": [{"secret": {"name": "d"}}]}},
        {"name": "x", "secret": {"secretName": "e"}},
        {"name": "y", "emptyDir": {}},
    ]
    found = collect_references(pod(container, volumes=volumes)["spec"])
    assert {(one.kind, one.name) for one in found} == {
        ("ConfigMap", "a"),
        ("Secret", "b"),
        ("ConfigMap", "c"),
        ("Secret", "d"),
        ("Secret", "e"),
    }
