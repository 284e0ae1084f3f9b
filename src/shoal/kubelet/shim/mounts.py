"""The mount namespace of a container: paths of the host bound to where the container expects them.

An existing target is covered by the mount. A missing target must not be created on the host: instead the
nearest existing directory above it is replaced, in this namespace only, by a tmpfs into which all its entries
are bound again (a shadow directory), and the target is created there. If that directory is `/`, a new root is
made in the same way.
"""

import os
import stat
import sys

from shoal.kubelet.shim import system

Mount = tuple[str, str, bool]
"""Source, target, and whether the mount is read-only."""


def enter(mounts: list[Mount], scratch: str) -> None:
    """Enter a new mount namespace and bind all mounts there; `scratch` is any existing directory."""
    _unshare()
    system.mount("none", "/", "", system.MS_REC | system.MS_PRIVATE)
    _Tree(scratch).bind(sorted(mounts, key=lambda mount: mount[1].rstrip("/").split("/")))


def _unshare() -> None:
    """Create the namespaces.

    Without root a user namespace gives the right to mount; users keep their ids in it.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        system.unshare(system.CLONE_NEWNS)
        return
    system.unshare(system.CLONE_NEWUSER | system.CLONE_NEWNS)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


class _Tree:
    """The file tree of the namespace while mounts are added."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._ours: set[str] = set()
        """Paths where entries may be created: shadow directories, their new entries, mounted volumes."""

    def bind(self, mounts: "list[Mount]") -> None:
        """Bind all mounts. A new root comes first: descriptors opened below the old root would be lost."""
        if not all(os.path.exists("/" + target.split("/")[1]) for _, target, _ in mounts):
            self._shadow("/")
        sources = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source, _, _ in mounts]
        for source, (_, target, read_only) in zip(sources, mounts, strict=True):
            path = os.path.normpath(target)
            self._make_target(path, directory=stat.S_ISDIR(os.fstat(source).st_mode))
            _bind(f"/proc/self/fd/{source}", path, read_only=read_only)
            self._ours.add(path)
            os.close(source)

    def _make_target(self, path: str, *, directory: bool) -> None:
        if os.path.exists(path):
            return
        above = os.path.dirname(path)
        self._make_target(above, directory=True)
        if not self._is_ours(above):
            self._shadow(above)
        if directory:
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))

    def _is_ours(self, path: str) -> bool:
        return any(path == own or path.startswith(f"{own}/") for own in self._ours)

    def _shadow(self, path: str) -> None:
        """Cover a directory by a tmpfs with the same entries."""
        there = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        root = path == "/"
        base = self._scratch if root else path
        kept = os.fstat(there)
        system.mount("shoal", base, "tmpfs", 0, f"mode={stat.S_IMODE(kept.st_mode):o}")
        for entry in os.listdir(f"/proc/self/fd/{there}"):
            _mirror(f"/proc/self/fd/{there}/{entry}", f"{base}/{entry}")
        os.close(there)
        if root:
            _change_root(base)
        self._ours.add(path)


def _mirror(source: str, target: str) -> None:
    """Make one entry of a directory appear in its shadow directory."""
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC))
    system.mount(source, target, "", system.MS_BIND | system.MS_REC)


def _change_root(root: str) -> None:
    """Make a directory the root, and detach the old root."""
    os.chdir(root)
    system.pivot_root(".", ".")
    system.unmount(".", system.MNT_DETACH)
    os.chdir("/")


def _bind(source: str, target: str, *, read_only: bool) -> None:
    system.mount(source, target, "", system.MS_BIND | system.MS_REC)
    if read_only:
        kept = os.statvfs(target).f_flag & (system.MS_NOSUID | system.MS_NODEV | system.MS_NOEXEC)
        flags = system.MS_REMOUNT | system.MS_BIND | system.MS_RDONLY | kept
        system.mount("none", target, "", flags)


def probe_mounts() -> None:
    """Test whether this user can mount: bind a directory to a missing path, as containers may need it.

    Exits with the reason if that fails. Run in a process of its own, because it changes the mount namespace.
    """
    home = sys.argv[2]
    try:
        enter([(home, "/shoal-probe", True)], home)
    except OSError as error:
        sys.exit(error.strerror or str(error))
