"""The environment of a container: all of it, for nothing is inherited.

It begins with a few variables of the host that programs cannot do without. Then come Shoal's own, then what
the pod says. The administrator's credentials (KUBECONFIG, SHOAL_HOME, tokens) are in none of them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from shoal.cluster.resources import Object
from shoal.kubelet import downward
from shoal.kubelet.downward import Place
from shoal.kubelet.references import ConfigError, Sources, found, referred

VENV: Final = "shoal.io/venv"
"""The annotation that names a virtual environment to run in."""
NODE: Final = "SHOAL_NODE_NAME"
DEVICES: Final = "CUDA_VISIBLE_DEVICES"

_OF_THE_HOST: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}
)
_OF_A_PERSON: Final = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"})
_USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE: Final = re.compile(r"\$(\$|\(([^()]*)\))")
_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a container's environment is made from, besides the pod."""

    place: Place
    sources: Sources
    host: Mapping[str, str]
    """The variables of the process that serves."""
    devices: tuple[int, ...] | None = None
    """Its GPUs; None where the node has none, so that there is nothing to hide."""
    somebody_else: bool = False
    """It runs as another user than we do."""
    peers: Mapping[str, str] = {}
    """Addresses by host of those whose names do not resolve here."""


def environment(pod: Object, container: Object, around: Surroundings) -> dict[str, str]:
    """All variables of a container; ConfigError if something that must be there is not."""
    made = _of_host(around) | _own(pod, around) | _of_venv(pod, around)
    for source in container.get("envFrom", ()):
        made |= _imported(source, around.sources)
    for variable in container.get("env", ()):
        value = _value(pod, container, variable, made, around)
        if value is not None:
            made[variable["name"]] = value
    return made


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with `$(NAME)` replaced; `$$` is a dollar, and a name that nobody knows stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


# --- what is there without asking --------------------------------------------------------------------------


def _of_host(around: Surroundings) -> dict[str, str]:
    kept = {name: text for name, text in around.host.items() if name in _OF_THE_HOST or name[:3] == "LC_"}
    if around.somebody_else:
        kept = {name: text for name, text in kept.items() if name not in _OF_A_PERSON} | {"HOME": "/"}
    return {"PATH": _USUAL_PATH} | kept


def _own(pod: Object, around: Surroundings) -> dict[str, str]:
    metadata, place = pod["metadata"], around.place
    made = {
        "HOSTNAME": pod["spec"].get("hostname") or metadata["name"],
        "SHOAL_POD_NAME": metadata["name"],
        "SHOAL_POD_NAMESPACE": metadata["namespace"],
        "SHOAL_POD_IP": place.ip,
        NODE: place.machine.name,
    }
    if around.peers:
        made["SHOAL_PEERS"] = ",".join(f"{host}={address}" for host, address in around.peers.items())
    return made | ({} if around.devices is None else {DEVICES: ",".join(map(str, around.devices))})


def _of_venv(pod: Object, around: Surroundings) -> dict[str, str]:
    directory = pod["metadata"].get("annotations", {}).get(VENV)
    if not directory:
        return {}
    if not Path(directory, "bin").is_dir():
        raise ConfigError(f"{VENV}: {directory} is not a virtual environment: it has no directory bin")
    path = around.host.get("PATH", _USUAL_PATH)
    return {"VIRTUAL_ENV": directory, "PATH": f"{directory}/bin:{path}"}


# --- what the pod says -------------------------------------------------------------------------------------


def _imported(source: Object, sources: Sources) -> dict[str, str]:
    """All that a config map or a secret has, under names that variables can have."""
    target = source.get("configMapRef") or source.get("secretRef") or {}
    data = found(sources, source, target) or {}
    prefix = source.get("prefix", "")
    return {
        f"{prefix}{key}": value.decode(errors="replace")
        for key, value in sorted(data.items())
        if _NAME.fullmatch(f"{prefix}{key}")
    }


def _value(
    pod: Object, container: Object, variable: Object, known: Mapping[str, str], around: Surroundings
) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return expanded(variable.get("value", ""), known)
    if "fieldRef" in source:
        return downward.field(pod, source["fieldRef"]["fieldPath"], around.place)
    if "resourceFieldRef" in source:
        return downward.resource(
            _asked_about(pod, container, source["resourceFieldRef"]),
            source["resourceFieldRef"],
            around.place.machine,
        )
    return _of_key(pod, source, around.sources)


def _asked_about(pod: Object, container: Object, reference: Object) -> Object:
    """The container that a reference to resources means: by default the one that it stands in."""
    return downward.containers(pod).get(reference.get("containerName", ""), container)


def _of_key(pod: Object, source: Object, sources: Sources) -> str | None:
    target = source.get("configMapKeyRef") or source.get("secretKeyRef") or {}
    data = found(sources, source, target)
    if data is not None and target["key"] in data:
        return data[target["key"]].decode(errors="replace")
    if data is None or target.get("optional"):
        return None
    kind, name = referred(source) or ("", "")
    raise ConfigError(f"couldn't find key {target['key']} in {kind} {pod['metadata']['namespace']}/{name}")
