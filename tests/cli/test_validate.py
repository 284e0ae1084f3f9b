"""`shoal validate` through the real command: output, errors, exit codes and imports."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import builders
from tests.cli.process import SHOAL, SHOAL_IN_SHELL, run, shell, shoal

GOOD = [builders.node("n"), builders.pod("p"), builders.pool("gpu")]
BAD = builders.pod("bad") | {"spec": {"containers": [], "nodeSelector": 5}}


def write(path: Path, *objects: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_valid_objects(tmp_path: Path) -> None:
    write(tmp_path / "good.yaml", *GOOD)
    done = shoal("validate", "-f", "good.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["Node n: valid", "Pod default/p: valid", "Pool gpu: valid", "3 valid"]


def test_all_errors_of_all_files(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", GOOD[0], BAD, GOOD[0])
    write(tmp_path / "b.yaml", {"kind": "Pod"}, {"kind": "Deployment", "apiVersion": "apps/v1"})
    odd = builders.pool("odd")
    odd["spec"]["disableSharring"] = True
    write(tmp_path / "c.yaml", odd)
    names = ("-f", "a.yaml", "-f", "missing.yaml", "-f", "b.yaml", "-f", "c.yaml")
    done = shoal("validate", *names, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.splitlines() == ["Node n: valid", "Pool odd: valid", "2 valid, 4 invalid, 1 skipped"]
    assert done.stderr.splitlines() == [
        "skipped: Deployment apps/v1 (1 object): unsupported kind",
        "warning: c.yaml: Pool odd: spec.disableSharring: is not a known field",
        "error: a.yaml#2: Pod default/bad: spec.containers: must have at least 1 item",
        "error: a.yaml#2: Pod default/bad: spec.nodeSelector: must be a mapping, not 5",
        "error: a.yaml#3: Node n: metadata.name: is a duplicate: a.yaml#1 has the same name",
        "error: missing.yaml: cannot be read: No such file or directory",
        "error: b.yaml#1: apiVersion: is required",
    ]


def test_quiet(tmp_path: Path) -> None:
    done = shoal("validate", "-q", "-f", write(tmp_path / "a.yaml", *GOOD))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_standard_input() -> None:
    done = shoal("validate", "-f", "-", stdin=yaml.safe_dump(GOOD[0]).encode())
    assert (done.returncode, done.stdout) == (0, "Node n: valid\n1 valid\n")


def test_directories(tmp_path: Path) -> None:
    write(tmp_path / "b.yml", GOOD[0])
    write(tmp_path / "a.json", GOOD[1])
    write(tmp_path / "notes.txt", 5)
    write(tmp_path / "below" / "c.yaml", GOOD[2])
    flat = shoal("validate", "-f", str(tmp_path))
    assert flat.stdout.splitlines() == ["Pod default/p: valid", "Node n: valid", "2 valid"]
    deep = shoal("validate", "-R", "-f", str(tmp_path))
    assert deep.stdout.splitlines() == ["Pod default/p: valid", "Node n: valid", "Pool gpu: valid", "3 valid"]


def test_a_file_is_required() -> None:
    done = shoal("validate")
    assert done.returncode == 2
    assert "Missing option '-f'" in done.stderr


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    name = write(tmp_path / "a.yaml", *(builders.pod(f"p{i}") for i in range(2000)))
    done = shell(f"{SHOAL_IN_SHELL} validate -f '{name}' | head -1")
    assert (done.stdout, done.stderr) == ("Pod default/p0: valid\n", "")


def test_a_full_disk_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    name = write(tmp_path / "a.yaml", *GOOD)
    with Path("/dev/full").open("wb") as full:
        done = run([*SHOAL, "validate", "-f", name], stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


LIGHT = [("--help",), ("--version",), ("crds", "pool"), ("validate", "-f", "-")]


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_small_commands_import_nothing_large(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom shoal.cli.main import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*({'numpy', 'rich', 'asyncio'} & set(sys.modules)), file=sys.stderr, end='')"
    )
    done = run([sys.executable, "-c", code, *arguments], stdin=b"kind: A\napiVersion: b\n")
    assert done.stdout
    assert "numpy" not in done.stderr
    assert "rich" not in done.stderr
    assert "asyncio" not in done.stderr


def test_help_lists_the_commands() -> None:
    done = shoal("--help")
    assert done.returncode == 0
    assert all(f"\n  {command} " in done.stdout for command in ("crds", "plan", "validate"))
    assert shoal("nonsense").returncode == 2


def test_an_interruption_prints_nothing() -> None:
    code = (
        "import os, signal, sys, threading\nfrom shoal.cli.main import main\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\nmain()"
    )
    command = [sys.executable, "-c", code, "validate", "-f", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S603 - our own
        code_of_exit = process.wait()
        assert process.stdout is not None
        assert process.stderr is not None
        output = process.stdout.read(), process.stderr.read()
    assert (code_of_exit, *map(bytes.strip, output)) == (130, b"", b"")
