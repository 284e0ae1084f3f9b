"""Pods as processes, from binding to the end, with the restarts of agents that come in between."""

import os
import socket
from pathlib import Path
from typing import TypeVar

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import StorageError
from shoal.cluster.port import Deletion
from shoal.cluster.resources import CONFIG_MAPS, LEASES, NODES, PODS, SERVICES, Object, Resource
from shoal.kubelet.lifecycle import KEPT_RUNS
from tests.kubelet.running import (
    NODE,
    OTHER,
    Scene,
    agent_on,
    container,
    kill_everything,
    pod,
    scene,
    until,
)

T = TypeVar("T")


def ended(thing: Object, name: str = "main") -> Object:
    """How the container of a pod ended."""
    status = next(one for one in thing["status"]["containerStatuses"] if one["name"] == name)
    told: Object = status["state"]["terminated"]
    return told


ENDS = {
    "it ends well": ("true", "Succeeded", 0, "Completed"),
    "it fails": ("exit 3", "Failed", 3, "Error"),
    "it is killed": ("kill -9 $$$$", "Failed", 137, "Error"),
}


@pytest.mark.parametrize("command, phase, code, reason", ENDS.values(), ids=ENDS)
async def test_how_a_pod_ends(tmp_path: Path, command: str, phase: str, code: int, reason: str) -> None:
    async with scene(tmp_path) as on:
        await on.submit(pod("a", container(command)))
        done = await on.phase("a", phase)
        assert (ended(done)["exitCode"], ended(done)["reason"]) == (code, reason)


async def test_a_pod_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        await on.submit(pod("a", container("sleep 600"), activeDeadlineSeconds=1))
        done = await on.phase("a", "Failed")
        assert (done["status"]["reason"], ended(done)["exitCode"]) == ("DeadlineExceeded", 143)


async def test_a_command_that_does_not_exist_is_said_and_the_pod_fails(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        await on.submit(pod("a", {"name": "main", "image": "x", "command": ["/no/such/program"]}))
        done = await on.phase("a", "Failed")
        assert ended(done)["reason"] == "StartError"
        assert "/no/such/program" in ended(done)["message"]


async def test_init_containers_come_first_and_one_after_another(tmp_path: Path) -> None:
    log = tmp_path / "order"
    init = [container(f"echo {name} >> {log}") | {"name": name} for name in ("one", "two")]
    async with scene(tmp_path / "home") as on:
        await on.submit(pod("a", container(f"echo main >> {log}"), initContainers=init))
        done = await on.phase("a", "Succeeded")
    assert log.read_text().split() == ["one", "two", "main"]
    assert [one["ready"] for one in done["status"]["initContainerStatuses"]] == [True, True]


async def test_an_init_container_that_fails_fails_the_pod(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        init = container("exit 1") | {"name": "first"}
        await on.submit(pod("a", container("true"), initContainers=[init]))
        done = await on.phase("a", "Failed")
        assert "terminated" not in done["status"]["containerStatuses"][0]["state"]


async def test_a_sidecar_is_there_before_the_others_and_ends_after_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    beside = container(
        f"trap 'echo stopped >> {log}; exit 0' TERM; echo up >> {log}; while :; do sleep 0.01; done"
    ) | {"name": "side", "restartPolicy": "Always"}
    async with scene(tmp_path / "home") as on:
        main = container(f"while ! grep -q up {log}; do sleep 0.01; done; echo main >> {log}")
        await on.submit(pod("a", main, initContainers=[beside]))
        await on.phase("a", "Succeeded")
    assert log.read_text().split() == ["up", "main", "stopped"]


async def test_what_fails_is_started_again_and_waits_longer_each_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    async with scene(tmp_path / "home") as on:
        command = f"echo x >> {counter}; test $(wc -l < {counter}) -ge 4"
        await on.submit(pod("a", container(command), restartPolicy="OnFailure"))
        done = await on.phase("a", "Succeeded")
        status = done["status"]["containerStatuses"][0]
        assert (status["restartCount"], len(counter.read_text().split())) == (3, 4)
        assert status["lastState"]["terminated"]["exitCode"] == 1
        assert (await on.told("BackOff"))["involvedObject"]["name"] == "a"


async def test_a_container_that_fails_for_ever_leaves_only_its_last_turns_on_the_disk(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        made = await on.submit(pod("a", container("exit 1"), restartPolicy="Always"))
        await on.until("a", lambda thing: restarts(thing) >= 2 * KEPT_RUNS)
        runs = on.directory(made) / "runs" / "main"
        await on.eventually(lambda: len(list(runs.iterdir())) <= KEPT_RUNS)
        assert on.agent.find_run("default", "a", previous=True).exit


def restarts(thing: Object) -> int:
    return int(thing["status"].get("containerStatuses", [{}])[0].get("restartCount", 0))


async def test_a_pod_that_is_deleted_has_its_grace_and_then_is_gone(tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with scene(tmp_path / "home") as on:
        command = f"trap 'echo bye > {said}; exit 0' TERM; echo > {said}; while :; do sleep 0.01; done"
        made = await on.submit(pod("a", container(command)))
        await on.phase("a", "Running")
        await on.eventually(said.exists)
        await on.delete("a")
        await on.gone("a")
        await on.eventually(lambda: not on.directory(made).exists())
    assert said.read_text() == "bye\n"


@pytest.mark.parametrize("grace", [0, 1])
async def test_what_does_not_want_to_end_is_killed(tmp_path: Path, grace: int) -> None:
    async with scene(tmp_path) as on:
        made = await on.submit(pod("a", container("trap '' TERM; while :; do sleep 0.01; done")))
        await on.phase("a", "Running")
        await on.delete("a", grace)
        await on.gone("a")
        await on.eventually(lambda: not on.directory(made).exists())


async def test_a_missing_config_map_is_waited_for(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        source = {"configMapKeyRef": {"name": "late", "key": "a"}}
        wanted = container('test "$A" = "here"', env=[{"name": "A", "valueFrom": source}])
        await on.submit(pod("a", wanted))
        waiting = await on.until("a", lambda thing: thing["status"].get("containerStatuses"))
        state = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
        assert state == {"reason": "CreateContainerConfigError", "message": 'configmap "late" not found'}
        late = {"metadata": {"name": "late", "namespace": "default"}, "data": {"a": "here"}}
        await on.registry.create(CONFIG_MAPS, late)
        await on.phase("a", "Succeeded")


async def test_volumes_are_seen_where_they_are_mounted(tmp_path: Path) -> None:
    async with scene(tmp_path / "home") as on:
        data = {"metadata": {"name": "words", "namespace": "default"}, "data": {"a": "hello"}}
        await on.registry.create(CONFIG_MAPS, data)
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
        await on.submit(pod("a", container(command, volumeMounts=mounts), volumes=volumes))
        await on.phase("a", "Succeeded")
    assert (tmp_path / "given" / "c").read_text() == "hello"


async def test_a_pod_is_ready_when_its_probe_says_so(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
    async with scene(tmp_path / "home") as on:
        await on.submit(pod("a", container("sleep 600", readinessProbe=probe)))
        running = await on.phase("a", "Running")
        assert not running["status"]["containerStatuses"][0]["ready"]
        flag.touch()
        await on.until("a", lambda thing: thing["status"]["containerStatuses"][0]["ready"])
        flag.unlink()
        unready = await on.until("a", lambda thing: not thing["status"]["containerStatuses"][0]["ready"])
        assert {one["type"]: one["status"] for one in unready["status"]["conditions"]}["Ready"] == "False"
        assert "Readiness probe failed" in (await on.told("Unhealthy"))["message"]


async def test_what_does_not_live_is_started_again(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
    async with scene(tmp_path / "home") as on:
        command = (
            f"test $(ls {tmp_path} | grep -c again) = 1 && touch {flag}; touch {tmp_path}/again; sleep 600"
        )
        wanted = container(command, livenessProbe=probe)
        await on.submit(pod("a", wanted, restartPolicy="Always", terminationGracePeriodSeconds=1))
        again = await on.until("a", lambda thing: restarts(thing) == 1)
        assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 143


async def test_every_pod_has_an_address_of_its_own_on_which_all_can_use_one_port(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        serve = "exec python3 -m http.server --bind $SHOAL_POD_IP 8099"
        addresses = set()
        for name in ("a", "b"):
            probe = {"tcpSocket": {"port": 8099}, "periodSeconds": 1, "failureThreshold": 60}
            await on.submit(pod(name, container(serve, startupProbe=probe)))
        for name in ("a", "b"):
            up = await on.until(
                name, lambda thing: thing["status"].get("containerStatuses", [{}])[0].get("ready")
            )
            addresses.add(up["status"]["podIP"])
        assert len(addresses) == 2
        for address in addresses:
            with socket.create_connection((address, 8099)):
                pass


async def test_who_binds_every_address_is_told_what_to_do(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        await on.submit(pod("a", container("echo 'OSError: [Errno 98] Address already in use' >&2; exit 1")))
        failed = await on.phase("a", "Failed")
        hint = await on.told("AddressInUse")
        assert failed["status"]["podIP"] in hint["message"]


async def test_names_of_a_service_resolve_also_before_their_pods_start(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        service = {"metadata": {"name": "peers", "namespace": "default"}, "spec": {"clusterIP": "None"}}
        await on.registry.create(SERVICES, service)
        await on.registry.create(PODS, pod("w1", container("true"), hostname="w1", subdomain="peers"))
        names = ("w1.peers", "w1.peers.default.svc.cluster.local", "w0.peers")
        look = container(" && ".join(f"getent hosts {name}" for name in names))
        await on.submit(pod("w0", look, hostname="w0", subdomain="peers"))
        done = await on.phase("w0", "Succeeded")
        first = done["status"]["podIP"]
        await on.delete("w0")
        await on.gone("w0")
        await on.submit(pod("w0", container("true"), hostname="w0", subdomain="peers"))
        assert (await on.phase("w0", "Succeeded"))["status"]["podIP"] == first


# --- agents that come and go -------------------------------------------------------------------------------


async def test_another_agent_finds_what_runs_and_what_ended_meanwhile(tmp_path: Path) -> None:
    home, log, go = tmp_path / "home", tmp_path / "log", tmp_path / "go"
    async with Registry() as registry:
        try:
            async with agent_on(registry, home) as on:
                command = f"echo x >> {log}; while ! test -e {go}; do sleep 0.01; done; exit 7"
                await on.submit(pod("a", container(command)))
                await on.phase("a", "Running")
            go.touch()
            async with agent_on(registry, home) as on:
                done = await on.phase("a", "Failed")
        finally:
            await kill_everything(home)
    assert ended(done)["exitCode"] == 7
    assert log.read_text() == "x\n"


async def test_a_pod_that_went_while_nobody_looked_is_ended(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Registry() as registry:
        try:
            async with agent_on(registry, home) as on:
                made = await on.submit(pod("a", container("sleep 600")))
                await on.phase("a", "Running")
            await registry.delete(PODS, "a", "default", Deletion(grace=0))
            async with agent_on(registry, home) as on:
                await on.eventually(lambda: not on.directory(made).exists())
        finally:
            await kill_everything(home)


async def test_what_has_ended_and_lost_its_directory_is_not_run_again(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    async with Registry() as registry:
        async with agent_on(registry, home) as on:
            made = await on.submit(pod("a", container(f"echo x >> {log}; sleep 600")))
            await on.phase("a", "Running")
            await on.eventually(log.exists)
        await kill_everything(home)
        async with agent_on(registry, home) as on:
            done = await on.phase("a", "Failed")
    assert made["metadata"]["uid"] == done["metadata"]["uid"]
    assert ended(done)["exitCode"] == 137
    assert log.read_text() == "x\n"


# --- nodes -------------------------------------------------------------------------------------------------


async def test_nodes_say_what_they_have_and_that_they_live(tmp_path: Path) -> None:
    async with scene(tmp_path, NODE, OTHER) as on:
        nodes = {one["metadata"]["name"]: one for one in (await on.registry.list(NODES)).items}
        assert nodes.keys() == {"n1", "n2"}
        assert nodes["n1"]["status"]["capacity"] == {"cpu": "8", "memory": "8Gi", "pods": "110"}
        leases = (await on.registry.list(LEASES)).items
        assert {one["spec"]["holderIdentity"] for one in leases} == {"n1", "n2"}


async def test_a_node_that_nobody_knew_how_it_was_says_that_it_is_ready(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        unknown = {"type": "Ready", "status": "Unknown"}
        await on.registry.patch_status(NODES, "n1", patch={"status": {"conditions": [unknown]}})
        async with on.registry.watch(NODES) as events:
            async for event in events:
                if event.object and event.object["status"]["conditions"][0]["status"] == "True":
                    return


async def test_nodes_of_an_earlier_agent_are_removed_when_their_pods_have_ended(tmp_path: Path) -> None:
    async with Registry() as registry:
        try:
            async with agent_on(registry, tmp_path, NODE, OTHER) as on:
                await on.submit(pod("a", container("sleep 600"), terminationGracePeriodSeconds=1), "n2")
                await on.phase("a", "Running")
            async with agent_on(registry, tmp_path, NODE) as on:
                await on.gone("a")
                await until(lambda: _is_alone(on))
        finally:
            await kill_everything(tmp_path)


async def _is_alone(on: Scene) -> bool:
    return [one["metadata"]["name"] for one in (await on.registry.list(NODES)).items] == ["n1"]


async def _stop(on: Scene, how: str | None) -> None:
    patch = {"metadata": {"annotations": {"shoal.io/stopped": how}}}
    await on.registry.patch(NODES, "n1", patch=patch)


async def test_a_node_without_power_runs_nothing_and_says_nothing(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with scene(tmp_path / "home") as on:
        await on.submit(pod("a", container(f"echo $$$$ > {pid}; exec sleep 600")))
        await on.phase("a", "Running")
        await on.eventually(lambda: pid.exists() and pid.read_text())
        await _stop(on, "power")
        await on.eventually(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
        assert (await on.registry.get(PODS, "a", "default"))["status"]["phase"] == "Running"
        await _stop(on, None)
        assert ended(await on.phase("a", "Failed"))["exitCode"] in (137, 143)


async def test_a_node_that_is_cut_off_runs_on_and_ends_what_was_given_up(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with scene(tmp_path / "home") as on:
        made = await on.submit(pod("a", container(f"echo $$$$ > {pid}; exec sleep 600")))
        await on.phase("a", "Running")
        await on.eventually(lambda: pid.exists() and pid.read_text())
        await _stop(on, "network")
        await on.registry.delete(PODS, "a", "default", Deletion(grace=0))
        await on.submit(pod("b", container("true")), NODE.name)
        os.kill(int(pid.read_text()), 0)
        await _stop(on, None)
        await on.eventually(lambda: not on.directory(made).exists())
        await on.phase("b", "Succeeded")


async def test_a_node_that_somebody_deleted_is_made_again(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        await on.registry.delete(NODES, "n1")
        await until(lambda: _is_alone(on))


class FullDisk(Registry):
    """Refuses nodes for as long as its disk is full."""

    full = True

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        if self.full and resource.full_name == NODES.full_name:
            raise StorageError("the disk is full")
        return await super().create(resource, body, dry_run=dry_run)


async def test_a_node_that_cannot_be_made_is_made_when_it_can(tmp_path: Path) -> None:
    async with FullDisk() as registry, agent_on(registry, tmp_path) as on:
        assert not (await registry.list(NODES)).items
        registry.full = False
        await until(lambda: _is_alone(on))
