"""Writes the files of a volume so that containers see either all old or all new ones.

As in Kubernetes, the files are in a directory of their own, `..data` is a symbolic link to it, and the names
that containers use are links through `..data`. An update writes a new directory and replaces the one link:

    hosts.worker -> ..data/hosts.worker
    ..data       -> ..1a2b3c4d
    ..1a2b3c4d/hosts.worker

A crash leaves at most a directory that nothing refers to; the next update removes it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

_DATA: Final = "..data"
_INTERNAL: Final = ".."
"""Prefix of the names that are not files of the volume; no key of a config map begins with it."""
_NEW_LINK: Final = "..new"
"""Temporary name of a link until it replaces another."""
_DIRECTORY_MODE: Final = 0o755
_GROUP_MODE: Final = 0o2750
"""Mode bits of directories of an fsGroup: new entries inherit the group."""
_GROUP_READABLE: Final = 0o440
"""Mode bits that kubelets add to files of an fsGroup."""


class VolumeFile(msgspec.Struct, frozen=True):
    """A file of a volume."""

    data: bytes
    mode: int


VolumeFiles = dict[str, VolumeFile]


def write_files(root: Path, files: Mapping[str, VolumeFile], group: int | None) -> None:
    """Let the directory of a volume have these files and no others; nothing is written if it has them."""
    current = root / _DATA
    if not _has_files(current, files):
        written = _write_directory(root, files, group)
        _replace_link(current, written.name)
        for path in root.iterdir():
            if path.name.startswith(_INTERNAL) and path.name not in (_DATA, written.name):
                shutil.rmtree(path)
    _link_names(root, {Path(path).parts[0] for path in files})


def _has_files(directory: Path, files: Mapping[str, VolumeFile]) -> bool:
    """Return whether a directory contains the texts of these files, and nothing else."""
    try:
        found = {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    except OSError:
        return False
    return directory.exists() and found == {path: file.data for path, file in files.items()}


def _write_directory(root: Path, files: Mapping[str, VolumeFile], group: int | None) -> Path:
    directory = Path(tempfile.mkdtemp(prefix=_INTERNAL, dir=root))
    for path, file in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        _write(directory / path, file, group)
    for one in (directory, *(path for path in directory.rglob("*") if path.is_dir())):
        if group is not None:
            os.chown(one, -1, group)
        one.chmod(_DIRECTORY_MODE if group is None else _DIRECTORY_MODE | _GROUP_MODE)
    return directory


def _write(path: Path, file: VolumeFile, group: int | None) -> None:
    """Write a new file with its final mode."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(file.data)
        if group is not None:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, file.mode if group is None else file.mode | _GROUP_READABLE)


def _link_names(root: Path, names: Iterable[str]) -> None:
    """Let the volume have these names and no others, each a link into the current directory."""
    wanted = {name: f"{_DATA}/{name}" for name in names}
    for path in root.iterdir():
        if path.is_symlink() and path.name not in (_DATA, *wanted):
            path.unlink()
    for name, target in wanted.items():
        link = root / name
        if not link.is_symlink() or str(link.readlink()) != target:
            _replace_link(link, target)


def _replace_link(link: Path, target: str) -> None:
    """Create or replace a symbolic link atomically. A directory in its place is from an earlier version."""
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    new = link.with_name(_NEW_LINK)
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)
