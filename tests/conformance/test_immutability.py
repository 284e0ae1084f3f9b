"""Edits of the specs of our job kinds: the same fields are mutable in every home."""

import pytest

from shoal.cluster.errors import InvalidError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object, resource_of
from tests.conformance.cases import cases
from tests.conformance.objects import CONTAINER, TEMPLATE, make

OTHER_TEMPLATE: Object = {"spec": {"containers": [{**CONTAINER, "image": "other"}]}}
DIJOB: Object = {
    "template": TEMPLATE,
    "minReplicas": 1,
    "maxReplicas": 3,
    "group": "a",
    "volumes": [{"name": "v"}],
}
LEARNER: Object = {"type": "learner", "template": TEMPLATE, "replicas": 1}
TASK: Object = {"name": "x", "template": TEMPLATE, "replicas": 1}
TASKS: Object = {"template": None, "tasks": [LEARNER, TASK]}
TYJOB: Object = {
    "leader": {"name": "l", "template": TEMPLATE},
    "workerSets": [{"name": name, "counts": 2, "template": TEMPLATE} for name in ("v", "w")],
}
V, W = TYJOB["workerSets"]
ROLE: Object = {"min-instance": 1, "max-instance": 2, "resources": {"requests": {"cpu": "1"}}}
TRAININGJOB: Object = {"image": "a", "trainer": ROLE, "pserver": ROLE, "volumeMounts": [{"name": "v"}]}

JOBS: dict[str, tuple[str, Object]] = {
    "dijob": ("DIJob", DIJOB),
    "tasks": ("DIJob", TASKS),
    "tyjob": ("TYJob", TYJOB),
    "trainingjob": ("TrainingJob", TRAININGJOB),
}

MUTABLE: list[tuple[str, str, Object]] = [
    ("size", "dijob", {"minReplicas": 2, "maxReplicas": 4}),
    ("no maximum", "dijob", {"maxReplicas": None, "backoffLimit": 5}),
    ("deadlines", "dijob", {"startingDeadlineSeconds": 5, "activeDeadlineSeconds": 6}),
    ("ttl", "dijob", {"ttlSecondsAfterFinished": 7}),
    ("other fields of a DIJob", "dijob", {"cleanPodPolicy": "All", "priority": "high", "suspend": True}),
    ("size of tasks", "tasks", {"tasks": [{**LEARNER, "replicas": 2}, {**TASK, "replicas": 3}]}),
    ("counts", "tyjob", {"workerSets": [{**V, "counts": 5}, {**W, "counts": 1}], "minWorkersNum": 3}),
    ("limits of a TYJob", "tyjob", {"restartLimit": 1, "ttlSecondsAfterFinished": 7, "priority": 9}),
    ("policies", "tyjob", {"schedulerPolicy": {"basicPolicy": "Gang"}, "cleanPodPolicy": "None"}),
    ("states of a TYJob", "tyjob", {"suspend": True, "terminating": True}),
    ("instances", "trainingjob", {"trainer": {"min-instance": 2, "max-instance": 5}}),
    ("other fields of a TrainingJob", "trainingjob", {"suspend": True, "ttlSecondsAfterFinished": 7}),
]

IMMUTABLE: list[tuple[str, str, Object, set[str]]] = [
    ("template", "dijob", {"template": OTHER_TEMPLATE}, {"spec.template"}),
    ("labels of pods", "dijob", {"template": {"metadata": {"labels": {"a": "b"}}}}, {"spec.template"}),
    ("the other form", "dijob", {"template": None, "tasks": [LEARNER]}, {"spec.template", "spec.tasks"}),
    ("preemptible", "dijob", {"preemptible": True, "minReplicas": 2}, {"spec.preemptible"}),
    ("topology", "dijob", {"engineFields": {"topology": "mesh"}}, {"spec.engineFields"}),
    ("two fields", "dijob", {"group": None, "volumes": []}, {"spec.group", "spec.volumes"}),
    ("a removed task", "tasks", {"tasks": [LEARNER]}, {"spec.tasks"}),
    ("an added task", "tasks", {"tasks": [LEARNER, TASK, {**TASK, "name": "y"}]}, {"spec.tasks"}),
    ("order of tasks", "tasks", {"tasks": [TASK, LEARNER]}, {"spec.tasks"}),
    ("name of a task", "tasks", {"tasks": [LEARNER, {**TASK, "name": "y"}]}, {"spec.tasks"}),
    ("type of a task", "tasks", {"tasks": [LEARNER, {**TASK, "type": "evaluator"}]}, {"spec.tasks"}),
    ("a name added later", "tasks", {"tasks": [{**LEARNER, "name": "learner"}, TASK]}, {"spec.tasks"}),
    (
        "template of a task",
        "tasks",
        {"tasks": [LEARNER, {**TASK, "template": OTHER_TEMPLATE}]},
        {"spec.tasks"},
    ),
    ("template of the leader", "tyjob", {"leader": {"template": OTHER_TEMPLATE}}, {"spec.leader"}),
    ("name of the leader", "tyjob", {"leader": {"name": "m"}}, {"spec.leader"}),
    ("volumes", "tyjob", {"volumes": [{"name": "v"}]}, {"spec.volumes"}),
    ("a removed worker set", "tyjob", {"workerSets": [V]}, {"spec.workerSets"}),
    ("order of sets", "tyjob", {"workerSets": [W, V]}, {"spec.workerSets"}),
    ("name of a set", "tyjob", {"workerSets": [V, {**W, "name": "x"}]}, {"spec.workerSets"}),
    (
        "template of a set",
        "tyjob",
        {"workerSets": [V, {**W, "template": OTHER_TEMPLATE, "counts": 3}]},
        {"spec.workerSets"},
    ),
    ("image", "trainingjob", {"image": "b", "passes": 2}, {"spec.image", "spec.passes"}),
    (
        "a part of the trainer",
        "trainingjob",
        {"trainer": {"entrypoint": "x", "max-instance": 3}},
        {"spec.trainer.entrypoint"},
    ),
    (
        "a field with a hyphen",
        "trainingjob",
        {"trainer": {"etcd-endpoint": "x"}},
        {"spec.trainer.etcd-endpoint"},
    ),
    ("pservers", "trainingjob", {"pserver": {"max-instance": 3}}, {"spec.pserver"}),
    ("a master added later", "trainingjob", {"master": {"workspace": "/"}}, {"spec.master"}),
    (
        "other spellings",
        "trainingjob",
        {"volumeMounts": None, "NodeSelector": {"a": "b"}},
        {"spec.volumeMounts", "spec.NodeSelector"},
    ),
    ("network", "trainingjob", {"host_network": True}, {"spec.host_network"}),
    ("priority class", "trainingjob", {"priorityClassName": "x"}, {"spec.priorityClassName"}),
]

FINISHED: list[tuple[str, str, Object, set[str]]] = [
    (
        "mutable fields",
        "dijob",
        {"minReplicas": 2, "suspend": True, "priority": "high"},
        {"spec.minReplicas", "spec.suspend", "spec.priority"},
    ),
    (
        "an immutable field too",
        "dijob",
        {"template": OTHER_TEMPLATE, "backoffLimit": 5},
        {"spec.template", "spec.backoffLimit"},
    ),
    ("replicas of a task", "tasks", {"tasks": [{**LEARNER, "replicas": 2}, TASK]}, {"spec.tasks"}),
    ("counts", "tyjob", {"workerSets": [V, {**W, "counts": 1}]}, {"spec.workerSets"}),
    ("terminating", "tyjob", {"terminating": True}, {"spec.terminating"}),
    (
        "instances",
        "trainingjob",
        {"trainer": {"max-instance": 3}, "suspend": True},
        {"spec.trainer", "spec.suspend"},
    ),
]


async def create(cluster: Cluster, namespace: str, name: str) -> Object:
    kind, spec = JOBS[name]
    return await cluster.create(resource_of(kind), make(resource_of(kind), "a", namespace, spec=spec))


async def finish(cluster: Cluster, namespace: str, name: str, phase: str) -> None:
    kind, _ = JOBS[name]
    status = {"status": {"stage" if kind == "TYJob" else "phase": phase}}
    await cluster.patch_status(resource_of(kind), "a", namespace, patch=status)


async def refused_paths(cluster: Cluster, namespace: str, name: str, change: Object) -> set[str]:
    """Return the paths of the fields because of which a change of the spec is refused.

    The embedded home also says which entry of a list it is.
    """
    kind, _ = JOBS[name]
    with pytest.raises(InvalidError) as refused:
        await cluster.patch(resource_of(kind), "a", namespace, patch={"spec": change})
    return {cause.path.partition("[")[0] for cause in refused.value.causes}


@cases("name, change", MUTABLE)
async def test_mutable_fields(cluster: Cluster, namespace: str, name: str, change: Object) -> None:
    made = await create(cluster, namespace, name)
    changed = await cluster.patch(resource_of(JOBS[name][0]), "a", namespace, patch={"spec": change})
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1


@cases("name, change, paths", IMMUTABLE)
async def test_immutable_fields(
    cluster: Cluster, namespace: str, name: str, change: Object, paths: set[str]
) -> None:
    made = await create(cluster, namespace, name)
    assert await refused_paths(cluster, namespace, name, change) == paths
    assert await cluster.get(resource_of(JOBS[name][0]), "a", namespace) == made


@cases("name, change, paths", FINISHED)
async def test_fields_of_a_finished_job(
    cluster: Cluster, namespace: str, name: str, change: Object, paths: set[str]
) -> None:
    await create(cluster, namespace, name)
    await finish(cluster, namespace, name, "Failed")
    assert await refused_paths(cluster, namespace, name, change) == paths


@pytest.mark.parametrize("name", JOBS)
async def test_what_may_be_changed_in_a_finished_job(cluster: Cluster, namespace: str, name: str) -> None:
    await create(cluster, namespace, name)
    await finish(cluster, namespace, name, "Running")
    await finish(cluster, namespace, name, "Succeeded")
    resource = resource_of(JOBS[name][0])
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"ttlSecondsAfterFinished": 5}}
    changed = await cluster.patch(resource, "a", namespace, patch=patch)
    assert changed["spec"]["ttlSecondsAfterFinished"] == 5
    status = {"status": {"conditions": [{"type": "Scheduled", "status": "True"}]}}
    written = await cluster.patch_status(resource, "a", namespace, patch=status)
    assert written["status"]["conditions"][0]["type"] == "Scheduled"


async def test_a_terminating_job_stays_terminating(cluster: Cluster, namespace: str) -> None:
    await create(cluster, namespace, "tyjob")
    await cluster.patch(resource_of("TYJob"), "a", namespace, patch={"spec": {"terminating": True}})
    for value in (False, None):
        assert await refused_paths(cluster, namespace, "tyjob", {"terminating": value}) == {
            "spec.terminating"
        }


async def test_an_update_is_checked_like_a_patch(cluster: Cluster, namespace: str) -> None:
    made = await create(cluster, namespace, "dijob")
    made["spec"] |= {"template": OTHER_TEMPLATE, "group": "b"}
    with pytest.raises(InvalidError) as refused:
        await cluster.update(resource_of("DIJob"), made)
    assert {cause.path for cause in refused.value.causes} == {"spec.template", "spec.group"}
