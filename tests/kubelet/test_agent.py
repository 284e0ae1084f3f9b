"""Pods as processes, from binding to deletion, across restarts of the agent."""

import os
import socket
from pathlib import Path
from typing import TypeVar

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.write import Body
from shoal.cluster.errors import StorageError
from shoal.cluster.port import Deletion
from shoal.cluster.resources import (
    CONFIG_MAPS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Object,
    Resource,
)
from shoal.kubelet.lifecycle import KEPT_RUNS
from shoal.kubelet.runtime import RuntimeFeatures, runtime
from tests.kubelet.harness import (
    NODE,
    OTHER_NODE,
    AgentHarness,
    agent_harness,
    container,
    kill_all_containers,
    pod,
    running_agent,
    wait_for,
)

T = TypeVar("T")


def terminated_state(obj: Object, name: str = "main") -> Object:
    """The terminated state of a container."""
    status = next(one for one in obj["status"]["containerStatuses"] if one["name"] == name)
    terminated: Object = status["state"]["terminated"]
    return terminated


EXITS = {
    "success": ("true", "Succeeded", 0, "Completed"),
    "failure": ("exit 3", "Failed", 3, "Error"),
    "killed": ("kill -9 $$$$", "Failed", 137, "Error"),
}


@pytest.mark.parametrize("command, phase, code, reason", EXITS.values(), ids=EXITS)
async def test_exit_of_a_pod(tmp_path: Path, command: str, phase: str, code: int, reason: str) -> None:
    async with agent_harness(tmp_path) as harness:
        await harness.submit(pod("a", container(command)))
        done = await harness.wait_for_phase("a", phase)
        assert (terminated_state(done)["exitCode"], terminated_state(done)["reason"]) == (code, reason)


async def test_a_pod_past_its_active_deadline_fails(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        await harness.submit(pod("a", container("sleep 600"), activeDeadlineSeconds=1))
        done = await harness.wait_for_phase("a", "Failed")
        assert (done["status"]["reason"], terminated_state(done)["exitCode"]) == ("DeadlineExceeded", 143)


async def test_a_missing_command_fails_the_pod_with_a_message(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        await harness.submit(pod("a", {"name": "main", "image": "x", "command": ["/no/such/program"]}))
        done = await harness.wait_for_phase("a", "Failed")
        assert terminated_state(done)["reason"] == "StartError"
        assert "/no/such/program" in terminated_state(done)["message"]


async def test_init_containers_run_first_and_in_order(tmp_path: Path) -> None:
    log = tmp_path / "order"
    init = [container(f"echo {name} >> {log}") | {"name": name} for name in ("one", "two")]
    async with agent_harness(tmp_path / "home") as harness:
        await harness.submit(pod("a", container(f"echo main >> {log}"), initContainers=init))
        done = await harness.wait_for_phase("a", "Succeeded")
    assert log.read_text().split() == ["one", "two", "main"]
    assert [one["ready"] for one in done["status"]["initContainerStatuses"]] == [True, True]


async def test_a_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        init = container("exit 1") | {"name": "first"}
        await harness.submit(pod("a", container("true"), initContainers=[init]))
        done = await harness.wait_for_phase("a", "Failed")
        assert "terminated" not in done["status"]["containerStatuses"][0]["state"]


async def test_a_sidecar_starts_before_main_containers_and_stops_after_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sidecar = container(
        f"trap 'echo stopped >> {log}; exit 0' TERM; echo up >> {log}; while :; do sleep 0.01; done"
    ) | {"name": "side", "restartPolicy": "Always"}
    async with agent_harness(tmp_path / "home") as harness:
        main = container(f"while ! grep -q up {log}; do sleep 0.01; done; echo main >> {log}")
        await harness.submit(pod("a", main, initContainers=[sidecar]))
        await harness.wait_for_phase("a", "Succeeded")
    assert log.read_text().split() == ["up", "main", "stopped"]


async def test_failed_containers_restart_with_back_off(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    async with agent_harness(tmp_path / "home") as harness:
        command = f"echo x >> {counter}; test $(wc -l < {counter}) -ge 4"
        await harness.submit(pod("a", container(command), restartPolicy="OnFailure"))
        done = await harness.wait_for_phase("a", "Succeeded")
        status = done["status"]["containerStatuses"][0]
        assert (status["restartCount"], len(counter.read_text().split())) == (3, 4)
        assert status["lastState"]["terminated"]["exitCode"] == 1
        assert (await harness.wait_for_event("BackOff"))["involvedObject"]["name"] == "a"


async def test_a_crash_looping_container_keeps_only_its_last_runs_on_disk(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        made = await harness.submit(pod("a", container("exit 1"), restartPolicy="Always"))
        await harness.wait_for_pod("a", lambda obj: restarts(obj) >= 2 * KEPT_RUNS)
        runs = harness.directory(made) / "runs" / "main"
        await harness.wait_until(lambda: len(list(runs.iterdir())) <= KEPT_RUNS)
        assert harness.agent.find_run("default", "a", previous=True).exit


def restarts(obj: Object) -> int:
    return int(obj["status"].get("containerStatuses", [{}])[0].get("restartCount", 0))


async def test_a_deleted_pod_has_its_grace_period(tmp_path: Path) -> None:
    output = tmp_path / "output"
    async with agent_harness(tmp_path / "home") as harness:
        command = f"trap 'echo bye > {output}; exit 0' TERM; echo > {output}; while :; do sleep 0.01; done"
        made = await harness.submit(pod("a", container(command)))
        await harness.wait_for_phase("a", "Running")
        await harness.wait_until(output.exists)
        await harness.delete("a")
        await harness.wait_until_gone("a")
        await harness.wait_until(lambda: not harness.directory(made).exists())
    assert output.read_text() == "bye\n"


@pytest.mark.parametrize("grace", [0, 1])
async def test_containers_that_ignore_sigterm_are_killed(tmp_path: Path, grace: int) -> None:
    async with agent_harness(tmp_path) as harness:
        made = await harness.submit(pod("a", container("trap '' TERM; while :; do sleep 0.01; done")))
        await harness.wait_for_phase("a", "Running")
        await harness.delete("a", grace)
        await harness.wait_until_gone("a")
        await harness.wait_until(lambda: not harness.directory(made).exists())


async def test_a_container_waits_for_a_missing_config_map(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        source = {"configMapKeyRef": {"name": "late", "key": "a"}}
        main = container('test "$A" = "here"', env=[{"name": "A", "valueFrom": source}])
        await harness.submit(pod("a", main))
        waiting = await harness.wait_for_pod("a", lambda obj: obj["status"].get("containerStatuses"))
        state = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
        assert state == {"reason": "CreateContainerConfigError", "message": 'configmap "late" not found'}
        late = {"metadata": {"name": "late", "namespace": "default"}, "data": {"a": "here"}}
        await harness.registry.create(CONFIG_MAPS, late)
        await harness.wait_for_phase("a", "Succeeded")


async def test_a_container_starts_when_its_secret_appears(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        token = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "late", "key": "token"}}}
        absent = {"name": "none", "key": "token", "optional": True}
        other = {"name": "OTHER", "valueFrom": {"secretKeyRef": absent}}
        main = container('test "$TOKEN" = hush && test -z "${OTHER+x}"', env=[token, other])
        await harness.submit(pod("a", main))
        waiting = await harness.wait_for_pod("a", lambda obj: obj["status"].get("containerStatuses"))
        state = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
        assert state == {"reason": "CreateContainerConfigError", "message": 'secret "late" not found'}
        late = {"metadata": {"name": "late", "namespace": "default"}, "stringData": {"token": "hush"}}
        await harness.registry.create(SECRETS, late)
        await harness.wait_for_phase("a", "Succeeded")


async def test_volumes_are_mounted(tmp_path: Path) -> None:
    async with agent_harness(tmp_path / "home") as harness:
        data = {"metadata": {"name": "words", "namespace": "default"}, "data": {"a": "hello"}}
        await harness.registry.create(CONFIG_MAPS, data)
        (tmp_path / "given").mkdir()
        volumes = [
            {"name": "words", "configMap": {"name": "words"}},
            {"name": "work", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": str(tmp_path / "given"), "type": "Directory"}},
        ]
        mounts = [
            {"name": "words", "mountPath": "/words", "readOnly": True},
            {"name": "work", "mountPath": "/work/deep"},
            {"name": "host", "mountPath": "/given"},
        ]
        command = "cat /words/a > /work/deep/b && cp /work/deep/b /given/c && ! touch /words/d"
        await harness.submit(pod("a", container(command, volumeMounts=mounts), volumes=volumes))
        await harness.wait_for_phase("a", "Succeeded")
    assert (tmp_path / "given" / "c").read_text() == "hello"


HOSTS = {"metadata": {"name": "hosts", "namespace": "default"}, "data": {"hosts": "one"}}
WAIT_FOR_TWO = "until grep -q two /words/hosts; do sleep 0.01; done"


def pod_with_hosts(name: str, command: str) -> Object:
    mount = {"name": "words", "mountPath": "/words", "readOnly": True}
    return pod(
        name,
        container(command, volumeMounts=[mount]),
        volumes=[{"name": "words", "configMap": {"name": "hosts"}}],
    )


async def test_volumes_follow_their_config_map(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        await harness.registry.create(CONFIG_MAPS, HOSTS)
        await harness.submit(pod_with_hosts("a", WAIT_FOR_TWO))
        await harness.wait_for_phase("a", "Running")
        await harness.registry.patch(CONFIG_MAPS, "hosts", "default", patch={"data": {"hosts": "two"}})
        await harness.wait_for_phase("a", "Succeeded")


async def test_volumes_follow_the_labels_of_the_pod(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        labels = {"path": "hosts", "fieldRef": {"fieldPath": "metadata.labels"}}
        made = pod_with_hosts("a", WAIT_FOR_TWO)
        made["spec"]["volumes"] = [{"name": "words", "downwardAPI": {"items": [labels]}}]
        await harness.submit(made)
        await harness.wait_for_phase("a", "Running")
        await harness.registry.patch(PODS, "a", "default", patch={"metadata": {"labels": {"n": "two"}}})
        await harness.wait_for_phase("a", "Succeeded")


async def test_a_new_agent_refreshes_volumes_that_changed_meanwhile(tmp_path: Path) -> None:
    async with Registry() as registry:
        try:
            await registry.create(CONFIG_MAPS, HOSTS)
            async with running_agent(registry, tmp_path) as harness:
                await harness.submit(pod_with_hosts("a", WAIT_FOR_TWO))
                await harness.wait_for_phase("a", "Running")
            await registry.patch(CONFIG_MAPS, "hosts", "default", patch={"data": {"hosts": "two"}})
            async with running_agent(registry, tmp_path) as harness:
                await harness.wait_for_phase("a", "Succeeded")
        finally:
            await kill_all_containers(tmp_path)


async def test_readiness_follows_the_readiness_probe(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
    async with agent_harness(tmp_path / "home") as harness:
        await harness.submit(pod("a", container("sleep 600", readinessProbe=probe)))
        running = await harness.wait_for_phase("a", "Running")
        assert not running["status"]["containerStatuses"][0]["ready"]
        flag.touch()
        await harness.wait_for_pod("a", lambda obj: obj["status"]["containerStatuses"][0]["ready"])
        flag.unlink()
        unready = await harness.wait_for_pod(
            "a", lambda obj: not obj["status"]["containerStatuses"][0]["ready"]
        )
        assert {one["type"]: one["status"] for one in unready["status"]["conditions"]}["Ready"] == "False"
        assert "Readiness probe failed" in (await harness.wait_for_event("Unhealthy"))["message"]


async def test_a_failed_liveness_probe_restarts_the_container(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
    async with agent_harness(tmp_path / "home") as harness:
        command = (
            f"test $(ls {tmp_path} | grep -c again) = 1 && touch {flag}; touch {tmp_path}/again; sleep 600"
        )
        main = container(command, livenessProbe=probe)
        await harness.submit(pod("a", main, restartPolicy="Always", terminationGracePeriodSeconds=1))
        again = await harness.wait_for_pod("a", lambda obj: restarts(obj) == 1)
        assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 143


async def test_pods_have_addresses_of_their_own_and_can_share_a_port(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        serve = "exec python3 -m http.server --bind $SHOAL_POD_IP 8099"
        addresses = set()
        for name in ("a", "b"):
            probe = {"tcpSocket": {"port": 8099}, "periodSeconds": 1, "failureThreshold": 60}
            await harness.submit(pod(name, container(serve, startupProbe=probe)))
        for name in ("a", "b"):
            up = await harness.wait_for_pod(
                name, lambda obj: obj["status"].get("containerStatuses", [{}])[0].get("ready")
            )
            addresses.add(up["status"]["podIP"])
        assert len(addresses) == 2
        for address in addresses:
            with socket.create_connection((address, 8099)):
                pass


async def test_an_address_in_use_is_explained_by_an_event(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        await harness.submit(
            pod("a", container("echo 'OSError: [Errno 98] Address already in use' >&2; exit 1"))
        )
        failed = await harness.wait_for_phase("a", "Failed")
        hint = await harness.wait_for_event("AddressInUse")
        assert failed["status"]["podIP"] in hint["message"]


async def test_names_of_a_service_resolve_before_their_pods_start(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        service = {"metadata": {"name": "peers", "namespace": "default"}, "spec": {"clusterIP": "None"}}
        await harness.registry.create(SERVICES, service)
        await harness.registry.create(PODS, pod("w1", container("true"), hostname="w1", subdomain="peers"))
        names = ("w1.peers", "w1.peers.default.svc.cluster.local", "w0.peers")
        look = container(" && ".join(f"getent hosts {name}" for name in names))
        await harness.submit(pod("w0", look, hostname="w0", subdomain="peers"))
        done = await harness.wait_for_phase("w0", "Succeeded")
        first = done["status"]["podIP"]
        await harness.delete("w0")
        await harness.wait_until_gone("w0")
        await harness.submit(pod("w0", container("true"), hostname="w0", subdomain="peers"))
        assert (await harness.wait_for_phase("w0", "Succeeded"))["status"]["podIP"] == first


def indexed_job(name: str, completions: int, subdomain: str) -> Object:
    template = pod("", container("true"), subdomain=subdomain)["spec"]
    size = {"completionMode": "Indexed", "completions": completions, "parallelism": completions}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": template}, **size},
    }


async def test_names_of_a_job_resolve_before_its_pods_exist(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        await harness.registry.create(JOBS, indexed_job("train", 3, "peers"))
        names = [f"train-{i}.peers.default.svc.cluster.local" for i in range(3)]
        look = container(" && ".join(f"getent hosts {name}" for name in names))
        await harness.submit(pod("train-0", look, subdomain="peers"))
        await harness.wait_for_phase("train-0", "Succeeded")


async def test_without_mounts_names_in_variables_are_replaced_by_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = RuntimeFeatures(mounts=False, cgroups="", users=False, notes=[])
    monkeypatch.setattr(runtime, "detect_features", lambda *_: none)
    names = [f"train-{i}.peers.default.svc.cluster.local" for i in range(11)]
    variables = {
        "NODES": ",".join(names),
        "ATTACH": f"--attach-to=tcp://{names[1]}:22270,tcp://{names[10]}:22270",
        "TWICE": "$(NODES)",
        "ELSEWHERE": "train-1.peers.other.svc.cluster.local",
    }
    env = [{"name": name, "value": value} for name, value in variables.items()]
    command = "echo $NODES; echo $ATTACH; echo $TWICE; echo $ELSEWHERE"
    async with agent_harness(tmp_path / "home") as harness:
        await harness.registry.create(JOBS, indexed_job("train", 11, "peers"))
        listing = container(f"({command}) > {tmp_path}/seen", env=env)
        await harness.submit(pod("train-0", listing, subdomain="peers"))
        ip = (await harness.wait_for_phase("train-0", "Succeeded"))["status"]["podIP"]
        await harness.submit(pod("train-10", container("true"), subdomain="peers"))
        last = (await harness.wait_for_phase("train-10", "Succeeded"))["status"]["podIP"]
    nodes, attach, twice, elsewhere = (tmp_path / "seen").read_text().splitlines()
    addresses = nodes.split(",")
    assert (len(set(addresses)), addresses[0], addresses[10]) == (11, ip, last)
    assert attach == f"--attach-to=tcp://{addresses[1]}:22270,tcp://{last}:22270"
    assert (twice, elsewhere) == (nodes, variables["ELSEWHERE"])


async def test_without_mounts_variables_tell_where_host_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = RuntimeFeatures(mounts=False, cgroups="", users=False, notes=[])
    monkeypatch.setattr(runtime, "detect_features", lambda *_: none)
    name = "train-1.peers.default.svc.cluster.local"
    data = {"metadata": {"name": "hosts", "namespace": "default"}, "data": {"hosts.worker": f"{name}\n"}}
    variables = {"HOSTFILE": "/var/run/shoal/hosts.worker", "PEER": name}
    env = [{"name": name, "value": value} for name, value in variables.items()]
    mount = {"name": "shoal-job", "mountPath": "/var/run/shoal"}
    async with agent_harness(tmp_path) as harness:
        await harness.registry.create(JOBS, indexed_job("train", 2, "peers"))
        await harness.registry.create(CONFIG_MAPS, data)
        main = container('test "$(cat $HOSTFILE)" = "$PEER"', env=env, volumeMounts=[mount])
        volume = {"name": "shoal-job", "projected": {"sources": [{"configMap": {"name": "hosts"}}]}}
        await harness.submit(pod("train-0", main, subdomain="peers", volumes=[volume]))
        await harness.wait_for_phase("train-0", "Succeeded")


# --- restarts of the agent ---------------------------------------------------------------------------------


async def test_a_new_agent_adopts_containers_that_ended_meanwhile(tmp_path: Path) -> None:
    home, log, go = tmp_path / "home", tmp_path / "log", tmp_path / "go"
    async with Registry() as registry:
        try:
            async with running_agent(registry, home) as harness:
                command = f"echo x >> {log}; while ! test -e {go}; do sleep 0.01; done; exit 7"
                await harness.submit(pod("a", container(command)))
                await harness.wait_for_phase("a", "Running")
            go.touch()
            async with running_agent(registry, home) as harness:
                done = await harness.wait_for_phase("a", "Failed")
        finally:
            await kill_all_containers(home)
    assert terminated_state(done)["exitCode"] == 7
    assert log.read_text() == "x\n"


async def test_a_pod_deleted_while_no_agent_runs_is_cleaned_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Registry() as registry:
        try:
            async with running_agent(registry, home) as harness:
                made = await harness.submit(pod("a", container("sleep 600")))
                await harness.wait_for_phase("a", "Running")
            await registry.delete(PODS, "a", "default", Deletion(grace=0))
            async with running_agent(registry, home) as harness:
                await harness.wait_until(lambda: not harness.directory(made).exists())
        finally:
            await kill_all_containers(home)


async def test_a_container_whose_directory_is_lost_is_not_run_again(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    async with Registry() as registry:
        async with running_agent(registry, home) as harness:
            made = await harness.submit(pod("a", container(f"echo x >> {log}; sleep 600")))
            await harness.wait_for_phase("a", "Running")
            await harness.wait_until(log.exists)
        await kill_all_containers(home)
        async with running_agent(registry, home) as harness:
            done = await harness.wait_for_phase("a", "Failed")
    assert made["metadata"]["uid"] == done["metadata"]["uid"]
    assert terminated_state(done)["exitCode"] == 137
    assert log.read_text() == "x\n"


# --- nodes -------------------------------------------------------------------------------------------------


async def test_nodes_report_capacity_and_leases(tmp_path: Path) -> None:
    async with agent_harness(tmp_path, NODE, OTHER_NODE) as harness:
        nodes = {one["metadata"]["name"]: one for one in (await harness.registry.list(NODES)).items}
        assert nodes.keys() == {"n1", "n2"}
        assert nodes["n1"]["status"]["capacity"] == {"cpu": "8", "memory": "8Gi", "pods": "110"}
        leases = (await harness.registry.list(LEASES)).items
        assert {one["spec"]["holderIdentity"] for one in leases} == {"n1", "n2"}


async def test_an_unknown_ready_condition_is_corrected(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        unknown = {"type": "Ready", "status": "Unknown"}
        await harness.registry.patch_status(NODES, "n1", patch={"status": {"conditions": [unknown]}})
        async with harness.registry.watch(NODES) as events:
            async for event in events:
                if event.object and event.object["status"]["conditions"][0]["status"] == "True":
                    return


async def test_nodes_of_an_earlier_agent_are_drained_and_removed(tmp_path: Path) -> None:
    async with Registry() as registry:
        try:
            async with running_agent(registry, tmp_path, NODE, OTHER_NODE) as harness:
                await harness.submit(pod("a", container("sleep 600"), terminationGracePeriodSeconds=1), "n2")
                await harness.wait_for_phase("a", "Running")
            async with running_agent(registry, tmp_path, NODE) as harness:
                await harness.wait_until_gone("a")
                await wait_for(lambda: _has_only_n1(harness))
        finally:
            await kill_all_containers(tmp_path)


async def _has_only_n1(harness: AgentHarness) -> bool:
    return [one["metadata"]["name"] for one in (await harness.registry.list(NODES)).items] == ["n1"]


async def _stop(harness: AgentHarness, mode: str | None) -> None:
    patch = {"metadata": {"annotations": {"shoal.io/stopped": mode}}}
    await harness.registry.patch(NODES, "n1", patch=patch)


async def test_a_node_without_power_runs_no_containers_and_reports_nothing(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with agent_harness(tmp_path / "home") as harness:
        await harness.submit(pod("a", container(f"echo $$$$ > {pid}; exec sleep 600")))
        await harness.wait_for_phase("a", "Running")
        await harness.wait_until(lambda: pid.exists() and pid.read_text())
        await _stop(harness, "power")
        await harness.wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
        assert (await harness.registry.get(PODS, "a", "default"))["status"]["phase"] == "Running"
        await _stop(harness, None)
        assert terminated_state(await harness.wait_for_phase("a", "Failed"))["exitCode"] in (137, 143)


async def test_a_node_without_network_cleans_up_deleted_pods_when_it_returns(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with agent_harness(tmp_path / "home") as harness:
        made = await harness.submit(pod("a", container(f"echo $$$$ > {pid}; exec sleep 600")))
        await harness.wait_for_phase("a", "Running")
        await harness.wait_until(lambda: pid.exists() and pid.read_text())
        await _stop(harness, "network")
        await harness.registry.delete(PODS, "a", "default", Deletion(grace=0))
        await harness.submit(pod("b", container("true")), NODE.name)
        os.kill(int(pid.read_text()), 0)
        await _stop(harness, None)
        await harness.wait_until(lambda: not harness.directory(made).exists())
        await harness.wait_for_phase("b", "Succeeded")


async def test_a_deleted_node_is_registered_again(tmp_path: Path) -> None:
    async with agent_harness(tmp_path) as harness:
        await harness.registry.delete(NODES, "n1")
        await wait_for(lambda: _has_only_n1(harness))


class FullDisk(Registry):
    """A registry that rejects new nodes while `full`."""

    full = True

    async def create(self, resource: Resource[T], body: Body, *, dry_run: bool = False) -> T:
        if self.full and resource.full_name == NODES.full_name:
            raise StorageError("the disk is full")
        return await super().create(resource, body, dry_run=dry_run)


async def test_a_node_that_could_not_be_registered_is_registered_later(tmp_path: Path) -> None:
    async with FullDisk() as registry, running_agent(registry, tmp_path) as harness:
        assert not (await registry.list(NODES)).items
        registry.full = False
        await wait_for(lambda: _has_only_n1(harness))
