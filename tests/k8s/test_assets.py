"""The build of assets: once, completely or not at all, with clear errors. Go is a shell script here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.k8s import assets

NEW_GO = 'echo "$*" >>"$CALLS"; [ "$1" = version ] && { echo go version go1.99.1 linux/amd64; exit; }\n'
"""The first lines of each fake Go: record the call, and report a new version."""

BUILDS = """
while [ "$1" != -o ]; do [ $# -gt 0 ] || exit 0; shift; done
for name in server kube-apiserver kube-controller-manager kubectl kubelet; do
    echo "#!/bin/sh" >"$2$name"; chmod +x "$2$name"
done
"""
"""A fake Go that builds all programs, and one more."""

FakeGo = Callable[[str], None]
Build = Callable[..., "Done"]


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    """Install a script as Go, with an empty cache."""
    monkeypatch.delenv(assets.ASSETS_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    monkeypatch.setattr(assets, "NEEDED_BYTES", 0)

    def write(script: str) -> None:
        (tmp_path / "go").write_text(f"#!/bin/sh\n{NEW_GO}{script}")
        (tmp_path / "go").chmod(0o755)

    return write


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def build(capsys: pytest.CaptureFixture[str]) -> Build:
    """Run the command of `make k8s-assets`."""

    def run(*arguments: str) -> Done:
        code = assets.main(arguments)
        return Done(code, *capsys.readouterr())

    return run


def within(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def calls(tmp_path: Path) -> list[str]:
    return [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()]


def test_a_second_run_builds_nothing(fake_go: FakeGo, build: Build, tmp_path: Path) -> None:
    fake_go(BUILDS)
    first, second = build(), build()
    assert (first.code, second.code) == (0, 0)
    assert calls(tmp_path) == ["version", "list", "build"]
    assert second.err == ""
    assert first.out == second.out == f"{assets.assets()}\n"
    assert within(assets.directory()) == sorted(assets.BASE)


def test_more_programs_are_added_to_the_cache(fake_go: FakeGo, build: Build, tmp_path: Path) -> None:
    fake_go(BUILDS)
    build()
    build("kubelet")
    assert within(assets.directory()) == sorted([*assets.BASE, "kubelet"])
    last = (tmp_path / "calls").read_text().splitlines()[-1]
    assert last.endswith("/ k8s.io/kubernetes/cmd/kubelet")


def test_unknown_programs_are_refused(
    fake_go: FakeGo, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_go(BUILDS)
    with pytest.raises(SystemExit):
        build("kubelets")
    assert "unknown: kubelets; there are etcd" in capsys.readouterr().err


FAILURES = {
    "no network": (
        "echo 'dial tcp: lookup proxy: no such host' >&2; exit 1",
        "the Go modules cannot be fetched (GOPROXY says from where): dial tcp: lookup proxy: no such host",
    ),
    "no disk space": (
        "echo 'write /x: no space left on device' >&2; exit 1",
        "the disk is full: write /x: no space left on device",
    ),
    "broken sources": ("echo 'x.go:1: syntax error' >&2; exit 1", "go failed:\nx.go:1: syntax error"),
}


@pytest.mark.parametrize("script, message", FAILURES.values(), ids=FAILURES)
def test_a_failed_build_reports_the_reason_and_leaves_nothing(
    fake_go: FakeGo, build: Build, script: str, message: str
) -> None:
    fake_go(script)
    done = build()
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith(f"k8s: no Kubernetes: {message}\n")
    assert within(assets.directory()) == []
    assert within(assets.cache()) == ["lock", assets.cache_key()]


def test_a_failed_build_does_not_fail_make_test(fake_go: FakeGo, build: Build) -> None:
    fake_go("exit 1")
    done = build("--if-possible")
    assert (done.code, done.out) == (0, "")
    assert "no Kubernetes, so tests on a real API server are SKIPPED: go failed" in done.err


def test_make_test_prints_the_directory(fake_go: FakeGo, build: Build) -> None:
    fake_go(BUILDS)
    assert build("--if-possible").out == f"kubernetes: {assets.directory()}\n"


def test_leftovers_of_a_killed_build_are_removed(fake_go: FakeGo, build: Build) -> None:
    fake_go(BUILDS)
    (assets.cache() / ".making-x").mkdir(parents=True)
    assert build().code == 0
    assert not (assets.cache() / ".making-x").exists()


def test_disk_space_is_checked_before_the_build(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(BUILDS)
    monkeypatch.setattr(assets, "NEEDED_BYTES", 2**70)
    with pytest.raises(assets.NoAssetsError, match=r"the build needs .* GiB of disk, and .* has .* GiB free"):
        assets.ensure(assets.BASE, lambda _: None)


def test_a_cache_that_cannot_be_written(fake_go: FakeGo, tmp_path: Path) -> None:
    fake_go(BUILDS)
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(assets.NoAssetsError, match="cannot write to the cache"):
        assets.ensure(assets.BASE, lambda _: None)


def test_missing_programs_are_reported_with_the_command(fake_go: FakeGo) -> None:
    fake_go(BUILDS)
    with pytest.raises(assets.NoAssetsError, match=r"there is no etcd and .*: run `make k8s-assets`$"):
        assets.assets()
    with pytest.raises(assets.NoAssetsError, match=r"run `make k8s-assets ASSETS='kubelet'`$"):
        assets.assets("kubelet")


def test_programs_of_the_environment_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(assets.ASSETS_VARIABLE, str(tmp_path))
    with pytest.raises(
        assets.NoAssetsError, match=f"^{assets.ASSETS_VARIABLE} is {tmp_path}, which has no kubectl$"
    ):
        assets.assets("kubectl")
    (tmp_path / "kubectl").touch(mode=0o755)
    assert assets.assets("kubectl") == tmp_path


def test_other_sources_have_another_cache_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = assets.cache_key()
    (tmp_path / "go.mod").write_bytes((assets.HERE / "go.mod").read_bytes())
    (tmp_path / "go.sum").write_text("other")
    monkeypatch.setattr(assets, "HERE", tmp_path)
    assert assets.cache_key() != before
    assert assets.cache_key().startswith(f"{assets.version()}-")
