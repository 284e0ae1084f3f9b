"""Kubeconfigs that say nothing unusual, read quickly: a command should not wait for a library to be imported.

One file, a server over HTTPS, an authority, and a token or a certificate: nearly all are like that. Of
whatever else, and of whatever is wrong, this knows nothing: the library reads it, and says what is wrong.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.cluster.kubernetes.access import Access, Constant, Credentials
from shoal.cluster.kubernetes.tls import Pem, Tls
from shoal.cluster.kubernetes.transport import proxy_for

Entry = Mapping[str, Any]

_AUTHORITY, _CERTIFICATE, _KEY = "certificate-authority", "client-certificate", "client-key"
_OF_CLUSTERS: Final = {
    "server",
    "insecure-skip-tls-verify",
    "tls-server-name",
    _AUTHORITY,
    f"{_AUTHORITY}-data",
    "extensions",  # notes of the tools that wrote it
}
_OF_USERS: Final = {"token", _CERTIFICATE, f"{_CERTIFICATE}-data", _KEY, f"{_KEY}-data"}


def simple_access(path: str, context: str = "") -> Access | None:
    """The way that a context of a simple kubeconfig describes; None if it is not simple, or not right."""
    try:
        file = Path(path).absolute()
        config = _read(file)
        chosen = _entry(config, "context", context or config["current-context"])
        cluster = _entry(config, "cluster", chosen["cluster"])
        user = _entry(config, "user", chosen["user"])
        if _says_more(cluster, _OF_CLUSTERS) or _says_more(user, _OF_USERS):
            return None
        return _access(file.parent, chosen, cluster, user)
    except (OSError, LookupError, TypeError, ValueError):
        return None


def context_names(path: str) -> list[str]:
    """The names of the contexts in a kubeconfig; none if it cannot be read."""
    try:
        return [str(entry["name"]) for entry in _read(Path(path))["contexts"]]
    except (OSError, LookupError, TypeError, ValueError):
        return []


def _read(file: Path) -> Entry:
    """A kubeconfig is YAML; ours is JSON, which is YAML too and is read without its parser."""
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
        return next(manifest.values(text))
    except (StopIteration, yaml.YAMLError) as problem:
        raise ValueError("not YAML") from problem


def _entry(config: Entry, kind: str, name: str) -> Entry:
    """The first entry of this name, which is the one that counts."""
    found = next(entry[kind] for entry in [*config[f"{kind}s"], {"name": name}] if entry["name"] == name)
    if not isinstance(found, Mapping):
        raise TypeError(f"a {kind} is a mapping")
    return found


def _says_more(entry: Entry, known: set[str]) -> bool:
    return any(value for key, value in entry.items() if key not in known)


def _access(beside: Path, context: Entry, cluster: Entry, user: Entry) -> Access | None:
    url, token = cluster["server"], user.get("token") or ""
    if not url.startswith("https://"):
        return None
    tls = Tls(
        authority=_pem(beside, cluster, _AUTHORITY),
        chain=_pem(beside, user, _CERTIFICATE),
        key=_pem(beside, user, _KEY),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
    )
    tls.context()  # whatever is wrong with a certificate is found now
    return Access(
        url=url,
        tls=tls,
        identity=Constant(Credentials(f"Bearer {token.strip()}" if token else "")),
        namespace=context.get("namespace") or "default",
        server_name=cluster.get("tls-server-name") or "",
        proxy=proxy_for(url),
    )


def _pem(beside: Path, entry: Entry, key: str) -> Pem:
    if text := entry.get(f"{key}-data"):
        return base64.b64decode("".join(text.split()), validate=True)
    return beside / entry[key] if entry.get(key) else b""
