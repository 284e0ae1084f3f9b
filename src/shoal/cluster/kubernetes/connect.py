"""Finds the way to a cluster: what is named, else what is around us.

In this order: a kubeconfig that is named, the files of `KUBECONFIG`, the service account of the pod that we
run in, and `~/.kube/config`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shoal.cluster.kubernetes.access import Access, AccessError, TokenFile
from shoal.cluster.kubernetes.quick_kubeconfig import context_names, simple_access
from shoal.cluster.kubernetes.tls import Tls
from shoal.cluster.kubernetes.transport import proxy_for

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_VARIABLE: Final = "KUBECONFIG"
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"


def find_access(
    kubeconfig: str = "",
    context: str = "",
    *,
    around: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The way to the cluster that is meant; AccessError if there is none."""
    named = kubeconfig or around.get(_VARIABLE, "")
    if not named and not context and around.get(_HOST) and (account / "token").exists():
        return in_cluster(around, account)
    named = named or _usual()
    return simple_access(named, context) or _from_library(named, context)


def contexts(kubeconfig: str = "", *, around: Mapping[str, str] = os.environ) -> list[str]:
    """The contexts that there are to choose from; none of files that cannot be read."""
    paths = kubeconfig or around.get(_VARIABLE, "") or _usual()
    return [name for path in paths.split(os.pathsep) for name in context_names(path)]


def _usual() -> str:
    return str(Path("~/.kube/config").expanduser())


def _from_library(named: str, context: str) -> Access:
    """Whatever is not simple. The library is slow to import, and most do without."""
    from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig  # noqa: PLC0415

    return from_kubeconfig(named, context)


def in_cluster(around: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> Access:
    """The way that every pod is given: the address in its environment, and a service account in files.

    Kubernetes replaces the token and the authority in time, and both are read again when it does.
    """
    host, port = around.get(_HOST, ""), around.get(_PORT, "443")
    if not host:
        raise AccessError(f"not in a pod of a cluster: {_HOST} is not set")
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    tls = Tls(authority=account / "ca.crt")
    try:
        tls.context()
        namespace = (account / "namespace").read_text().strip()
    except (OSError, ValueError) as problem:
        raise AccessError(f"the service account cannot be read: {problem}") from problem
    return Access(
        url=url,
        tls=tls,
        identity=TokenFile(account / "token"),
        namespace=namespace or "default",
        proxy=proxy_for(url),
    )
