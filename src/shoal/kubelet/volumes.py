"""Volumes as directories: their contents, and where containers mount them.

A volume with contents (config map, secret, downward API) is written whenever a container is started, and
again when what it refers to has changed.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from shoal.cluster.resources import Object
from shoal.kubelet.references import (
    ConfigError,
    PodLocation,
    ReferencedObjects,
    containers_by_name,
    expand_variables,
    field_value,
    resolve_data,
    resource_value,
)
from shoal.kubelet.runtime import Mount
from shoal.kubelet.volume_writer import VolumeFile, VolumeFiles, write_files

_WORLD_WRITABLE: Final = 0o777
_WORLD_READABLE: Final = 0o755
"""Mode of directories with files from the API: writers could redirect later writes with symbolic links."""
_FILE_MODE: Final = 0o644

VOLUME_TYPES: Final = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")
"""The supported types of volumes."""
PROJECTED_SOURCES: Final = ("configMap", "secret", "downwardAPI")
"""The supported sources of a projected volume."""


class MountError(Exception):
    """Raised when a volume cannot be provided as the pod requests it."""


def volume_files(
    pod: Object, volume: Object, location: PodLocation, sources: ReferencedObjects
) -> VolumeFiles:
    """The files of a volume, by path."""
    if "projected" not in volume:
        return _source_files(pod, volume, location, sources, _FILE_MODE)
    mode = volume["projected"].get("defaultMode", _FILE_MODE)
    files: VolumeFiles = {}
    for source in volume["projected"].get("sources", ()):
        files |= _source_files(pod, source, location, sources, mode)
    return files


def _source_files(
    pod: Object, source: Object, location: PodLocation, sources: ReferencedObjects, mode: int
) -> VolumeFiles:
    """The files of one source: a volume, or a part of a projected volume."""
    if "downwardAPI" in source:
        return dict(_downward_files(pod, source["downwardAPI"], location, mode))
    target = source.get("configMap") or source.get("secret")
    if target is None:
        return {}
    data = resolve_data(sources, source, target) or {}
    mode = target.get("defaultMode", mode)
    if "items" not in target:
        return {key: VolumeFile(value, mode) for key, value in data.items()}
    return dict(_selected_keys(target, data, mode))


def _selected_keys(target: Object, data: Mapping[str, bytes], mode: int) -> Iterator[tuple[str, VolumeFile]]:
    for item in target["items"]:
        if item["key"] in data:
            yield item["path"], VolumeFile(data[item["key"]], item.get("mode", mode))
        elif not target.get("optional"):
            raise ConfigError(f"references non-existent config key: {item['key']}")


def _downward_files(
    pod: Object, target: Object, location: PodLocation, mode: int
) -> Iterator[tuple[str, VolumeFile]]:
    mode = target.get("defaultMode", mode)
    containers = containers_by_name(pod)
    for item in target.get("items", ()):
        if "fieldRef" in item:
            text = field_value(pod, item["fieldRef"]["fieldPath"], location)
        else:
            reference = item["resourceFieldRef"]
            text = resource_value(containers[reference["containerName"]], reference, location.node)
        yield item["path"], VolumeFile(text.encode(), item.get("mode", mode))


# --- directories -------------------------------------------------------------------------------------------


def make_volumes(
    pod: Object,
    directory: Path,
    location: PodLocation,
    sources: ReferencedObjects,
    replace_names: Callable[[str], str] | None = None,
) -> None:
    """Create or update the volumes of a pod below a directory; MountError if one cannot be provided.

    `replace_names` replaces host names in files by addresses, where hosts files cannot be mounted.
    """
    for volume in pod["spec"].get("volumes", ()):
        if "hostPath" in volume:
            _check_host_path(volume["hostPath"])
        else:
            _make_volume(pod, volume, directory, volume_files(pod, volume, location, sources), replace_names)


def refresh_volumes(
    pod: Object,
    directory: Path,
    location: PodLocation,
    sources: ReferencedObjects,
    replace_names: Callable[[str], str] | None = None,
) -> None:
    """Update the contents of the volumes that a pod has. What refers to a missing object stays as it is."""
    for volume in pod["spec"].get("volumes", ()):
        if not {"hostPath", "emptyDir"} & volume.keys() and (directory / volume["name"]).exists():
            with contextlib.suppress(ConfigError):
                files = volume_files(pod, volume, location, sources)
                _make_volume(pod, volume, directory, files, replace_names)


def _make_volume(
    pod: Object,
    volume: Object,
    directory: Path,
    files: VolumeFiles,
    replace_names: Callable[[str], str] | None,
) -> None:
    group = pod["spec"].get("securityContext", {}).get("fsGroup") if os.geteuid() == 0 else None
    root, is_empty = directory / volume["name"], "emptyDir" in volume
    if not root.exists():
        _make_root(root, _WORLD_WRITABLE if is_empty else _WORLD_READABLE, group)
    if replace_names:
        files = {path: _with_addresses(file, replace_names) for path, file in files.items()}
    if not is_empty:
        write_files(root, files, group)


def _with_addresses(file: VolumeFile, replace_names: Callable[[str], str]) -> VolumeFile:
    try:
        return VolumeFile(replace_names(file.data.decode()).encode(), file.mode)
    except UnicodeDecodeError:  # it has no names
        return file


def _make_root(root: Path, mode: int, group: int | None) -> None:
    """Create the directory of a volume."""
    root.mkdir(parents=True)
    if group is not None:
        os.chown(root, -1, group)
        mode |= stat.S_ISGID  # new entries inherit the group
    root.chmod(mode)


def _has_mode(test: Callable[[int], bool]) -> Callable[[Path], bool]:
    return lambda path: path.exists() and test(path.stat().st_mode)


_HOST_PATH_CHECKS: Final[Mapping[str, Callable[[Path], bool]]] = {
    "": lambda _: True,
    "Directory": Path.is_dir,
    "DirectoryOrCreate": Path.is_dir,
    "File": Path.is_file,
    "FileOrCreate": Path.is_file,
    "Socket": _has_mode(stat.S_ISSOCK),
    "CharDevice": _has_mode(stat.S_ISCHR),
    "BlockDevice": _has_mode(stat.S_ISBLK),
}


def _check_host_path(host_path: Object) -> None:
    path, kind = Path(host_path["path"]), host_path.get("type") or ""
    try:
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        if kind == "FileOrCreate":
            path.touch()
    except OSError as error:
        raise MountError(f"{path}: {error.strerror}") from None
    if not _HOST_PATH_CHECKS[kind](path):
        raise MountError(f"hostPath type check failed: {path} is not a {kind}")


# --- mounts ------------------------------------------------------------------------------------------------


def container_mounts(
    pod: Object, container: Object, directory: Path, variables: Mapping[str, str]
) -> list[Mount]:
    """The mounts of a container; a missing sub-path of a volume is created."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    return [
        _mount(mount, volumes[mount["name"]], directory, variables)
        for mount in container.get("volumeMounts", ())
    ]


def _mount(mount: Object, volume: Object, directory: Path, variables: Mapping[str, str]) -> Mount:
    host = volume.get("hostPath")
    source = Path(host["path"]) if host else directory / volume["name"]
    sub_path = mount.get("subPath") or expand_variables(mount.get("subPathExpr", ""), variables)
    if sub_path:
        source = _sub_path(source, sub_path)
    return Mount(source=str(source), target=mount["mountPath"], read_only=bool(mount.get("readOnly")))


def _sub_path(source: Path, sub_path: str) -> Path:
    """A path inside a volume; MountError if it leads outside."""
    path = source / sub_path
    if Path(sub_path).is_absolute() or not path.resolve().is_relative_to(source.resolve()):
        raise MountError(f"subPath {sub_path} leads outside the volume")
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(stat.S_IMODE(source.stat().st_mode))
    return path


def is_present_on_host(mount: Object, volume: Object) -> bool:
    """Whether a mount is a no-op: a path of the host mounted at its own path."""
    host = volume.get("hostPath")
    if host is None or {"subPath", "subPathExpr"} & mount.keys() or mount.get("readOnly"):
        return False
    return Path(host["path"]) == Path(mount["mountPath"])
