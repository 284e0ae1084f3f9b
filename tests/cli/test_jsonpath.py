"""JSONPath: evaluation, templates and errors."""

from typing import Any

import pytest

from shoal.cli.output.jsonpath import PathError, evaluate, render

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web", "n": 1}},
    "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}],
        "ready": True,
    },
}

FOUND: dict[str, list[Any]] = {
    "{.metadata.name}": ["web"],
    ".metadata.name": ["web"],
    "metadata.name": ["web"],
    "{$.metadata.name}": ["web"],
    "{.metadata.nope}": [],
    "{.metadata.name.deeper}": [],
    "{.spec.containers[0].name}": ["a"],
    "{.spec.containers[-1].name}": ["b"],
    "{.spec.containers[7].name}": [],
    "{.spec.containers[*].name}": ["a", "b"],
    "{.metadata.labels.app\\.kubernetes\\.io/name}": ["web"],
    "{.metadata.labels['app.kubernetes.io/name']}": ["web"],
    "{..image}": ["x", "y"],
    '{.status.conditions[?(@.type=="Ready")].status}': ["True"],
    "{.status.conditions[?(@.type!='Ready')].status}": ["False"],
    "{.spec.containers[?(@.name)].image}": ["x", "y"],
    "{.spec.containers[?(@.nope)].image}": [],
    "{.metadata.labels.*}": ["web", 1],
}


@pytest.mark.parametrize("path, values", FOUND.items(), ids=FOUND)
def test_evaluate(path: str, values: list[Any]) -> None:
    assert evaluate(path, POD) == values


FILLED = {
    "{.metadata.name}": "web",
    "{.metadata.name} is {.status.ready}": "web is true",
    "{.spec.containers[*].name}": "a b",
    '{range .spec.containers[*]}{.name}={.image}{"\\n"}{end}.': "a=x\nb=y\n.",
    '{range .spec.containers[*]}{range .nope[*]}{"never"}{end}{.name}{end}': "ab",
    "{.status.conditions[0]}": '{"type":"Ready","status":"True"}',
}


@pytest.mark.parametrize("template, text", FILLED.items(), ids=FILLED)
def test_render(template: str, text: str) -> None:
    assert render(template, POD) == text


@pytest.mark.parametrize("template", ["{.a", "{.a[}", "{range .a}", "{.a[b c]}", "}{"])
def test_invalid_templates_are_rejected(template: str) -> None:
    with pytest.raises(PathError):
        render(template, POD)
