"""Volumes of a pod: what they are called, where their files go, and where containers see them.

Wherever a pod runs, names and paths of its volumes become directories and files: none may lead elsewhere.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from shoal.api.fields import FieldError, shown
from shoal.api.names import dns_label_errors
from shoal.cluster.resources import Object

_KEYED: Final = ("configMap", "secret")
_WITH_FILES: Final = (*_KEYED, "downwardAPI")


def volume_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Complain about the volumes of a pod, and about how its containers mount them."""
    names: set[str] = set()
    for i, volume in enumerate(spec.get("volumes", ())):
        where = f"{path}.volumes[{i}]"
        yield from _name_errors(volume.get("name", ""), names, f"{where}.name")
        yield from _source_errors(volume, where)
        for j, source in enumerate(volume.get("projected", {}).get("sources", ())):
            yield from _source_errors(source, f"{where}.projected.sources[{j}]")
        if "hostPath" in volume:
            yield from _host_errors(volume["hostPath"].get("path", ""), f"{where}.hostPath.path")
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field, ())):
            yield from _mount_errors(container, names, f"{path}.{field}[{i}].volumeMounts")


def _name_errors(name: str, names: set[str], path: str) -> Iterator[FieldError]:
    """Complain about a name; `names` are those of the others so far."""
    yield from dns_label_errors(name, path)
    if name in names:
        yield FieldError(path, f"Duplicate value: '{shown(name)}'")
    names.add(name)


def _source_errors(holder: Object, path: str) -> Iterator[FieldError]:
    """Complain about the files that something brings into a volume."""
    for kind in _WITH_FILES:
        for i, item in enumerate(holder.get(kind, {}).get("items", ())):
            where = f"{path}.{kind}.items[{i}]"
            if kind in _KEYED and not item.get("key"):
                yield FieldError(f"{where}.key", "is required")
            if item.get("path"):
                yield from _inner_errors(item["path"], f"{where}.path")
            else:
                yield FieldError(f"{where}.path", "is required")
            if "resourceFieldRef" in item and not item["resourceFieldRef"].get("containerName"):
                yield FieldError(f"{where}.resourceFieldRef.containerName", "is required")


def _host_errors(host: str, path: str) -> Iterator[FieldError]:
    if not host:
        yield FieldError(path, "is required")
    elif ".." in PurePosixPath(host).parts:
        yield FieldError(path, f"must not contain '..', not '{shown(host)}'")


def _mount_errors(container: Object, names: set[str], path: str) -> Iterator[FieldError]:
    """Complain about the mounts of a container; `names` are those of the volumes that there are."""
    taken: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts", ())):
        where, name, target = f"{path}[{i}]", mount.get("name", ""), mount.get("mountPath", "")
        if name not in names:
            yield FieldError(f"{where}.name", f"Not found: '{shown(name)}'")
        if not target:
            yield FieldError(f"{where}.mountPath", "is required")
        elif target in taken:
            yield FieldError(f"{where}.mountPath", f"must be unique, not '{shown(target)}' again")
        taken.add(target)
        for field in ("subPath", "subPathExpr"):
            yield from _inner_errors(mount.get(field, ""), f"{where}.{field}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield FieldError(f"{where}.subPathExpr", "must not be set beside subPath")


def _inner_errors(inner: str, path: str) -> Iterator[FieldError]:
    """Complain about a path that is to be inside of a volume, and is not."""
    if inner.startswith("/"):
        yield FieldError(path, f"must be a relative path, not '{shown(inner)}'")
    if ".." in PurePosixPath(inner).parts:
        yield FieldError(path, f"must not contain '..', not '{shown(inner)}'")
