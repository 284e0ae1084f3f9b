"""A real control plane on loopback: etcd, kube-apiserver and, on request, kube-controller-manager.

    with control_plane(tmp_path) as plane:
        plane.client().get("/version")
        plane.kubectl("get", "nodes")
        plane.restart(plane.etcd)

Everything lives in one directory. The processes end with the `with` block, and with the test process even if
that is killed; the logs stay.
"""

import contextlib
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.k8s import access
from tests.k8s.access import ADMIN, USERS, Client
from tests.k8s.assets import NoAssetsError, assets
from tests.k8s.processes import Process, free_ports, reaper, until

__all__ = ["ControlPlane", "NoAssetsError", "assets", "control_plane"]

_HOST: Final = "127.0.0.1"
_WITHOUT_CONTROLLERS: Final = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
"""Without controllers there are no service accounts, and the not-ready taint is never removed."""


@contextlib.contextmanager
def control_plane(
    directory: Path,
    *,
    controllers: bool = False,
    users: Mapping[str, Sequence[str]] = USERS,
    api_server_flags: Sequence[str] = (),
) -> Iterator["ControlPlane"]:
    """Run a control plane; with `controllers` also those of Kubernetes, but never a scheduler."""
    with reaper() as reaper_pipe:
        plane = ControlPlane(directory, reaper_pipe, controllers, users, api_server_flags)
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


def _needed(*, controllers: bool) -> tuple[str, ...]:
    return ("etcd", "kube-apiserver", "kubectl", *(["kube-controller-manager"] if controllers else []))


class ControlPlane:
    """The processes, and clients for them."""

    def __init__(
        self,
        directory: Path,
        reaper_pipe: IO[bytes],
        controllers: bool,  # noqa: FBT001 - only `control_plane` calls this
        users: Mapping[str, Sequence[str]],
        api_server_flags: Sequence[str],
    ) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._binaries = assets(*_needed(controllers=controllers))
        self._reaper_pipe = reaper_pipe
        self._ports = dict(zip(("etcd", "peer", "api"), free_ports(3), strict=True))
        self._tokens = access.make_tokens(users, directory / "tokens.csv")
        access.make_signing_key(directory / "sa.key")
        self.etcd = self._process("etcd", self._etcd_flags())
        more = () if controllers else (_WITHOUT_CONTROLLERS,)
        self.api_server = self._process("kube-apiserver", [*self._api_flags(), *more, *api_server_flags])
        self.controllers = (
            self._process("kube-controller-manager", self._controller_flags()) if controllers else None
        )

    @property
    def url(self) -> str:
        return f"https://{_HOST}:{self._ports['api']}"

    @property
    def authority(self) -> Path:
        """The CA certificates of the API server, which it creates at its first start."""
        return self.directory / "certificates" / "apiserver.crt"

    @property
    def processes(self) -> list[Process]:
        """All processes, in the order in which they need each other."""
        return [self.etcd, self.api_server, *filter(None, [self.controllers])]

    # --- processes ----------------------------------------------------------------------------------------

    def start(self) -> None:
        self.etcd.start()
        self.api_server.start()
        self.wait_until_ready()
        self._write_kubeconfigs()
        if self.controllers is not None:
            self.controllers.start()
            self._wait_until(self._has_service_accounts, "the controllers work")

    def stop(self) -> None:
        """Kill everything, last first, and delete the data. The logs stay."""
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.directory / "data", ignore_errors=True)

    def restart(self, process: Process) -> None:
        """Kill a process and start it again in its place, with the same data and ports."""
        process.stop()
        process.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        self._wait_until(lambda: self.authority.exists() and self.client().ready(), "the API server is ready")

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition; if a process dies, or after a timeout, show the ends of all logs."""

        def alive_and_true() -> bool:
            if dead := [process.name for process in self.processes[:2] if not process.alive()]:
                raise RuntimeError(f"{' and '.join(dead)} died before {what}\n{self._log_tails()}")
            return condition()

        until(alive_and_true, what, explain=self._log_tails)

    def _log_tails(self) -> str:
        return "\n".join(process.tail() for process in self.processes)

    def _has_service_accounts(self) -> bool:
        return self.client().call("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200

    # --- access -------------------------------------------------------------------------------------------

    def client(self, user: str = ADMIN) -> Client:
        tls = ssl.create_default_context(cafile=str(self.authority))
        return Client(self.url, self._tokens[user], tls)

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig of a user, for kubectl and for any other client."""
        return self.directory / f"kubeconfig-{user}"

    def _write_kubeconfigs(self) -> None:
        authority = self.authority.read_bytes()
        for user, token in self._tokens.items():
            path = self.kubeconfig(user)
            access.write_kubeconfig(path, url=self.url, authority=authority, user=user, token=token)

    def kubectl(
        self, *arguments: str, user: str = ADMIN, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl as a user; a failure is returned, not raised."""
        environment = os.environ | {
            "KUBECONFIG": str(self.kubeconfig(user)),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
        }
        command = [str(self._binaries / "kubectl"), *arguments]
        return subprocess.run(  # noqa: S603 - our own command
            command, input=stdin, capture_output=True, text=True, timeout=300, check=False, env=environment
        )

    # --- flags --------------------------------------------------------------------------------------------

    def _process(self, name: str, flags: Sequence[str]) -> Process:
        log = self.directory / f"{name}.log"
        return Process(name, [str(self._binaries / name), *flags], log, self._reaper_pipe)

    def _address(self, port: str) -> str:
        return f"http://{_HOST}:{self._ports[port]}"

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.directory / 'data'}",
            "--unsafe-no-fsync",  # only a crash of the machine would lose data
            f"--listen-client-urls={self._address('etcd')}",
            f"--advertise-client-urls={self._address('etcd')}",
            f"--listen-peer-urls={self._address('peer')}",
            f"--initial-advertise-peer-urls={self._address('peer')}",
            f"--initial-cluster=default={self._address('peer')}",
        ]

    def _api_flags(self) -> list[str]:
        key = self.directory / "sa.key"
        return [
            f"--etcd-servers={self._address('etcd')}",
            f"--bind-address={_HOST}",
            f"--advertise-address={_HOST}",
            f"--secure-port={self._ports['api']}",
            f"--cert-dir={self.directory / 'certificates'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://localhost",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC,Node",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _controller_flags(self) -> list[str]:
        """Without the node lifecycle controller: test nodes have no kubelet that renews their leases."""
        return [
            f"--kubeconfig={self.kubeconfig()}",
            "--leader-elect=false",
            f"--service-account-private-key-file={self.directory / 'sa.key'}",
            f"--root-ca-file={self.authority}",
            "--controllers=*,-node-lifecycle-controller",
            "--secure-port=0",
        ]
