"""Finds the access to a cluster.

In this order: a kubeconfig that the caller names, the files of `KUBECONFIG`, the service account of the pod
that this process runs in, and `~/.kube/config`.

Simple kubeconfigs (one file, a server over HTTPS, an authority, and a token or a certificate: nearly all are)
are read here, because the Kubernetes library takes long to import and commands should start at once. All
others, and all that are wrong, are left to the library: it reads them, and reports what is wrong.
"""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.cluster.kubernetes.access import (
    Access,
    AccessError,
    Credentials,
    PemSource,
    StaticCredentials,
    TlsConfig,
    TokenFileCredentials,
    proxy_for,
)

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_KUBECONFIG: Final = "KUBECONFIG"
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"


def find_access(
    kubeconfig: str = "",
    context: str = "",
    *,
    env: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Return the access to the cluster that is named, or configured; AccessError if there is none."""
    paths = kubeconfig or env.get(_KUBECONFIG, "")
    if not paths and not context and env.get(_HOST) and (service_account / "token").exists():
        return in_cluster_access(env, service_account)
    paths = paths or _default_kubeconfig()
    return simple_access(paths, context) or _library_access(paths, context)


def list_contexts(kubeconfig: str = "", *, env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of all contexts; files that cannot be read are skipped."""
    paths = kubeconfig or env.get(_KUBECONFIG, "") or _default_kubeconfig()
    return [name for path in paths.split(os.pathsep) for name in context_names(path)]


def in_cluster_access(env: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> Access:
    """Return the access that every pod has: an address in its environment, and a service account in files.

    Kubernetes replaces the token and the authority before they expire; both are then read again.
    """
    host, port = env.get(_HOST, ""), env.get(_PORT, "443")
    if not host:
        raise AccessError(f"not running in a pod of a cluster: {_HOST} is not set")
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    tls = TlsConfig(authority=service_account / "ca.crt")
    try:
        tls.context()
        namespace = (service_account / "namespace").read_text().strip()
    except (OSError, ValueError) as error:
        raise AccessError(f"cannot read the service account: {error}") from error
    return Access(
        url=url,
        tls=tls,
        credential_source=TokenFileCredentials(service_account / "token"),
        namespace=namespace or "default",
        proxy=proxy_for(url),
    )


def _default_kubeconfig() -> str:
    return str(Path("~/.kube/config").expanduser())


def _library_access(paths: str, context: str) -> Access:
    """Return the access of a kubeconfig that is not simple, through the library."""
    from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig  # noqa: PLC0415 - slow, rarely needed

    return from_kubeconfig(paths, context)


# --- simple kubeconfigs -----------------------------------------------------------------------------------

Entry = Mapping[str, Any]

_AUTHORITY, _CERTIFICATE, _KEY = "certificate-authority", "client-certificate", "client-key"
_CLUSTER_FIELDS: Final = {
    "server",
    "insecure-skip-tls-verify",
    "tls-server-name",
    _AUTHORITY,
    f"{_AUTHORITY}-data",
    "extensions",  # notes of the tools that wrote the file
}
_USER_FIELDS: Final = {"token", _CERTIFICATE, f"{_CERTIFICATE}-data", _KEY, f"{_KEY}-data"}


def simple_access(path: str, context: str = "") -> Access | None:
    """Return the access of a context of a simple kubeconfig; None if the file is not simple, or not valid."""
    try:
        file = Path(path).absolute()
        config = _read(file)
        chosen = _entry(config, "context", context or config["current-context"])
        cluster = _entry(config, "cluster", chosen["cluster"])
        user = _entry(config, "user", chosen["user"])
        if _has_other_fields(cluster, _CLUSTER_FIELDS) or _has_other_fields(user, _USER_FIELDS):
            return None
        return _make_access(file.parent, chosen, cluster, user)
    except (OSError, LookupError, TypeError, ValueError):
        return None


def context_names(path: str) -> list[str]:
    """Return the names of the contexts in a kubeconfig; none if it cannot be read."""
    try:
        return [str(entry["name"]) for entry in _read(Path(path))["contexts"]]
    except (OSError, LookupError, TypeError, ValueError):
        return []


def _read(file: Path) -> Entry:
    """Read a kubeconfig. Shoal writes JSON, which is valid YAML and needs no YAML parser."""
    text = file.read_text()
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = _read_yaml(text)
    if not isinstance(found, Mapping):
        raise TypeError("a kubeconfig is a mapping")
    return found


def _read_yaml(text: str) -> object:
    import yaml  # noqa: PLC0415 - needed for some files only

    from shoal.api import manifest  # noqa: PLC0415

    try:
        return next(manifest.parse_yaml(text))
    except (StopIteration, yaml.YAMLError) as error:
        raise ValueError("not YAML") from error


def _entry(config: Entry, kind: str, name: str) -> Entry:
    """Return the first entry of a name: that one counts."""
    found = next(entry[kind] for entry in [*config[f"{kind}s"], {"name": name}] if entry["name"] == name)
    if not isinstance(found, Mapping):
        raise TypeError(f"a {kind} is a mapping")
    return found


def _has_other_fields(entry: Entry, known: set[str]) -> bool:
    return any(value for key, value in entry.items() if key not in known)


def _make_access(directory: Path, context: Entry, cluster: Entry, user: Entry) -> Access | None:
    url, token = cluster["server"], user.get("token") or ""
    if not url.startswith("https://"):
        return None
    tls = TlsConfig(
        authority=_pem(directory, cluster, _AUTHORITY),
        chain=_pem(directory, user, _CERTIFICATE),
        key=_pem(directory, user, _KEY),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
    )
    tls.context()  # finds invalid certificates now
    return Access(
        url=url,
        tls=tls,
        credential_source=StaticCredentials(Credentials(f"Bearer {token.strip()}" if token else "")),
        namespace=context.get("namespace") or "default",
        server_name=cluster.get("tls-server-name") or "",
        proxy=proxy_for(url),
    )


def _pem(directory: Path, entry: Entry, key: str) -> PemSource:
    """Return inline PEM data, else the file that is named, relative to the directory of the kubeconfig."""
    if text := entry.get(f"{key}-data"):
        return base64.b64decode("".join(text.split()), validate=True)
    return directory / entry[key] if entry.get(key) else b""
