"""Volumes as directories: what is in them, and where containers see them.

A volume with contents (config map, secret, fields of the pod) is written whenever a container is started:
what runs keeps what it has seen.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from shoal.cluster.resources import Object
from shoal.kubelet import downward
from shoal.kubelet.downward import Place
from shoal.kubelet.environment import expanded
from shoal.kubelet.references import ConfigError, Sources, found
from shoal.kubelet.runtime import Mount

_EVERYBODY: Final = 0o777
_READERS: Final = 0o755
"""Where files are put that containers read: whoever may write there could have them written elsewhere."""
_MODE: Final = 0o644
_SHARED: Final = 0o2770
"""A directory of a group: what is made in it is the group's as well."""

_GROUP_READS: Final = 0o440
"""What kubelets add to the mode of a file that a group is to have."""

KINDS: Final = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")
"""The kinds of volumes that there are."""
PROJECTED: Final = ("configMap", "secret", "downwardAPI")
"""What can be put together in one volume."""


class MountError(Exception):
    """Raised when a volume cannot be had as the pod asks for it."""


class File(msgspec.Struct, frozen=True):
    """A file of a volume."""

    data: bytes
    mode: int


Files = dict[str, File]


def files_of(pod: Object, volume: Object, place: Place, sources: Sources) -> Files:
    """What is in a volume at first, by path."""
    if "projected" not in volume:
        return _from_source(pod, volume, place, sources, _MODE)
    mode = volume["projected"].get("defaultMode", _MODE)
    made: Files = {}
    for source in volume["projected"].get("sources", ()):
        made |= _from_source(pod, source, place, sources, mode)
    return made


def _from_source(pod: Object, holder: Object, place: Place, sources: Sources, mode: int) -> Files:
    """What one source brings: a volume, or a part of a projected one."""
    if "downwardAPI" in holder:
        return dict(_fields(pod, holder["downwardAPI"], place, mode))
    target = holder.get("configMap") or holder.get("secret")
    if target is None:
        return {}
    data = found(sources, holder, target) or {}
    mode = target.get("defaultMode", mode)
    if "items" not in target:
        return {key: File(value, mode) for key, value in data.items()}
    return dict(_picked(target, data, mode))


def _picked(target: Object, data: Mapping[str, bytes], mode: int) -> Iterator[tuple[str, File]]:
    for item in target["items"]:
        if item["key"] in data:
            yield item["path"], File(data[item["key"]], item.get("mode", mode))
        elif not target.get("optional"):
            raise ConfigError(f"references non-existent config key: {item['key']}")


def _fields(pod: Object, target: Object, place: Place, mode: int) -> Iterator[tuple[str, File]]:
    mode = target.get("defaultMode", mode)
    containers = downward.containers(pod)
    for item in target.get("items", ()):
        if "fieldRef" in item:
            text = downward.field(pod, item["fieldRef"]["fieldPath"], place)
        else:
            reference = item["resourceFieldRef"]
            text = downward.resource(containers[reference["containerName"]], reference, place.machine)
        yield item["path"], File(text.encode(), item.get("mode", mode))


# --- directories -------------------------------------------------------------------------------------------


def make(pod: Object, directory: Path, place: Place, sources: Sources) -> None:
    """Make the volumes of a pod below a directory, or bring them up to date; MountError if one cannot be."""
    group = pod["spec"].get("securityContext", {}).get("fsGroup") if os.geteuid() == 0 else None
    for volume in pod["spec"].get("volumes", ()):
        if "hostPath" in volume:
            _check_host_path(volume["hostPath"])
            continue
        root = directory / volume["name"]
        if not root.exists():
            _make_root(root, _EVERYBODY if "emptyDir" in volume else _READERS, group)
        for path, file in files_of(pod, volume, place, sources).items():
            _write(root / path, file, group)


def _make_root(root: Path, mode: int, group: int | None) -> None:
    """Make the directory of a volume. What a container puts there afterwards is its own."""
    root.mkdir(parents=True)
    if group is not None:
        os.chown(root, -1, group)
        mode |= _SHARED
    root.chmod(mode)


def _write(path: Path, file: File, group: int | None) -> None:
    """Write a file, which nobody sees before it is whole and has its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(file.data)
        if group is not None:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, file.mode if group is None else file.mode | _GROUP_READS)
    aside.replace(path)


def _is(test: Callable[[int], bool]) -> Callable[[Path], bool]:
    return lambda path: path.exists() and test(path.stat().st_mode)


_TYPES: Final[Mapping[str, Callable[[Path], bool]]] = {
    "": lambda _: True,
    "Directory": Path.is_dir,
    "DirectoryOrCreate": Path.is_dir,
    "File": Path.is_file,
    "FileOrCreate": Path.is_file,
    "Socket": _is(stat.S_ISSOCK),
    "CharDevice": _is(stat.S_ISCHR),
    "BlockDevice": _is(stat.S_ISBLK),
}


def _check_host_path(wanted: Object) -> None:
    path, kind = Path(wanted["path"]), wanted.get("type") or ""
    try:
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        if kind == "FileOrCreate":
            path.touch()
    except OSError as problem:
        raise MountError(f"{path}: {problem.strerror}") from None
    if not _TYPES[kind](path):
        raise MountError(f"hostPath type check failed: {path} is not a {kind}")


# --- mounts ------------------------------------------------------------------------------------------------


def mounts_of(pod: Object, container: Object, directory: Path, variables: Mapping[str, str]) -> list[Mount]:
    """What a container sees where; a part of a volume is made if it is not there."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    return [
        _mount(mount, volumes[mount["name"]], directory, variables)
        for mount in container.get("volumeMounts", ())
    ]


def _mount(wanted: Object, volume: Object, directory: Path, variables: Mapping[str, str]) -> Mount:
    host = volume.get("hostPath")
    source = Path(host["path"]) if host else directory / volume["name"]
    inner = wanted.get("subPath") or expanded(wanted.get("subPathExpr", ""), variables)
    if inner:
        source = _below(source, inner)
    return Mount(source=str(source), target=wanted["mountPath"], read_only=bool(wanted.get("readOnly")))


def _below(source: Path, inner: str) -> Path:
    """A part of a volume, and of nothing else."""
    path = source / inner
    if Path(inner).is_absolute() or not path.resolve().is_relative_to(source.resolve()):
        raise MountError(f"subPath {inner} leads out of the volume")
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(stat.S_IMODE(source.stat().st_mode))
    return path


def already_there(wanted: Object, volume: Object) -> bool:
    """Whether a mount asks for what is there without it: a path of the host under its own name."""
    host = volume.get("hostPath")
    if host is None or {"subPath", "subPathExpr"} & wanted.keys() or wanted.get("readOnly"):
        return False
    return Path(host["path"]) == Path(wanted["mountPath"])
