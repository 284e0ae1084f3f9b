"""The registry compared with a real API server: both store the same objects and refuse the same ones."""

import pytest

from shoal.cluster.errors import ClusterError
from shoal.cluster.resources import Object, Resource
from tests.apiserver.registry import test_objects, test_strategies
from tests.apiserver.registry.objects import opened
from tests.k8s.controlplane import ControlPlane

GOOD = {name: row[:2] for name, row in test_strategies.FILLED.items()}
BAD = {name: row[:2] for name, row in test_strategies.WRONG.items()} | {
    name: row[:2] for name, row in test_objects.REFUSED_CREATIONS.items()
}
ONLY_HERE = {
    "a service with a clusterIP": "there is no service proxy",
    "not JSON": "it cannot be sent",
    "the name exists": "on the real server it does not",
    "a resourceVersion": "a real server refuses it only when it writes, not in a dry run",
    "too large an object": "etcd refuses it, which a dry run does not reach",
}
OTHER_CODES = {"a secret that is not base64": (422, 400)}
"""Cases that both refuse, one as invalid (422) and the other as a bad request (400)."""
TIMES = ("creationTimestamp", "lastTransitionTime")
SERVERS_OWN = ("uid", "resourceVersion", "managedFields", *TIMES)


def dry_run_create(k8s: ControlPlane, resource: Resource[Object], body: Object) -> tuple[int, Object]:
    """Return the result of a dry run on the API server."""
    namespace = (
        body["metadata"].get("namespace", "default") if isinstance(body["metadata"], dict) else "default"
    )
    whole = {"apiVersion": resource.api_version, "kind": resource.kind} | body
    return k8s.client().call("POST", f"{resource.path(namespace)}?dryRun=All", whole)


def normalized(value: object, uid: str) -> object:
    """Drop nulls and fields that differ between two creations."""
    if isinstance(value, dict):
        return {
            key.replace(uid, "UID"): normalized(inner, uid)
            for key, inner in value.items()
            if key not in SERVERS_OWN and inner is not None and not _is_admitted(key, inner)
        }
    if isinstance(value, list):
        return [normalized(inner, uid) for inner in value]
    return value.replace(uid, "UID") if isinstance(value, str) else value


def _is_admitted(key: str, value: object) -> bool:
    """Whether it is a toleration of the DefaultTolerationSeconds plugin, which the registry lacks."""
    return key == "tolerations" and isinstance(value, list) and all("tolerationSeconds" in t for t in value)


@pytest.mark.parametrize("case", GOOD)
async def test_both_store_the_same(k8s: ControlPlane, case: str) -> None:
    resource, body = GOOD[case]
    code, theirs = dry_run_create(k8s, resource, body)
    assert code == 201, theirs
    async with opened() as registry:
        ours = await registry.create(resource, body)
    assert normalized(ours, ours["metadata"]["uid"]) == normalized(theirs, theirs["metadata"]["uid"])


def test_the_listed_differences_exist() -> None:
    assert set(ONLY_HERE) | set(OTHER_CODES) <= set(BAD)


@pytest.mark.parametrize("case", [case for case in BAD if case not in ONLY_HERE])
async def test_both_refuse_the_same(k8s: ControlPlane, case: str) -> None:
    resource, body = BAD[case]
    code, theirs = dry_run_create(k8s, resource, body)
    async with opened() as registry:
        with pytest.raises(ClusterError) as caught:
            await registry.create(resource, body)
    expected = OTHER_CODES.get(case, (code, code))
    assert (int(caught.value.code), code) == expected, theirs.get("message")
