"""Invalid input of all sorts, through the real command: exit 2, a clear message, no traceback, quickly."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import builders
from tests.cli.process import SHOAL_IN_SHELL, shell, shoal

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(c + 1)}: &{chr(c + 1)} [{','.join([f'*{chr(c)}'] * 9)}]\n" for c in range(ord("a"), ord("k"))
)
POD = builders.pod("p", cpu=1)


def pod(**spec: Any) -> bytes:  # noqa: ANN401 - raw YAML
    return yaml.safe_dump(POD | {"spec": {**POD["spec"], **spec}}).encode()


def pod_requesting(amount: object) -> bytes:
    return pod(containers=[{"resources": {"requests": {"memory": amount}}}])


MEMORY = "Pod default/p: spec.containers[0].resources.requests.memory: "
TEXTS: list[tuple[str, bytes, str]] = [
    (
        "wrong types",
        pod(containers={"a": 1}),
        "Pod default/p: spec.containers: must be a list, not a mapping",
    ),
    (
        "missing fields",
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
        "Pod default/p: spec: is required",
    ),
    ("negative quantities", pod_requesting("-1Gi"), f"{MEMORY}must be 0 or more, not '-1Gi'"),
    ("absurd quantities", pod_requesting("9" * 50), f"{MEMORY}must be at most 1Ei, not '{'9' * 50}'"),
    ("quantities beyond floats", pod_requesting("1e999"), f"{MEMORY}must be at most 1Ei, not '1e999'"),
    ("duplicate names", pod() + b"---\n" + pod(), "Pod default/p: metadata.name: is a duplicate"),
    ("duplicate keys", b"kind: a\nkind: b\n", "is not YAML: line 2: key kind is given twice"),
    ("an empty file", b"", "has no objects"),
    ("white space", b"  \n\n", "has no objects"),
    ("nothing but separators", b"---\n---\n", "has no objects"),
    ("nothing at all", b"", "has no objects"),
    ("comments alone", b"# nothing\n", "has no objects"),
    ("prose", b"Dear cluster, please run my job.\n", "must be an object (a mapping), not 'Dear cluster"),
    ("binary", bytes(range(255, 0, -1)) * 100, "is not text in UTF-8 (byte 0)"),
    ("nulls", b"\0" * 1000, "is not YAML: "),
    ("a lone surrogate", b'{"kind": "\\ud800"}', "is not YAML: line 1: found invalid Unicode character"),
    ("an alias bomb", BOMB.encode(), "more than 3000000 values after expansion of aliases"),
    (
        "a merge key bomb",
        b"a: &a {" + b",".join(b"k%d: 1" % i for i in range(1000)) + b"}\nb:\n" + b"- {<<: *a}\n" * 5000,
        "more than 3000000 values",
    ),
    ("deep lists", b"[" * 500_000, "is nested too deeply"),
    ("deep mappings", b"{" * 500_000, "nested more than 100 levels deep"),
    ("deep JSON", b'{"a":' * 500_000, "is nested too deeply"),
    (
        "deep JSON in a template",
        b'{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"template":'
        + b'{"a":' * 990
        + b"1"
        + b"}" * 992,
        "is nested too deeply",
    ),
    ("deep blocks", b"".join(b" " * i + b"a:\n" for i in range(2000)), "nested more than 100 levels deep"),
    ("truncated JSON", json.dumps(POD).encode()[:-5], "is not YAML: "),
    ("100 MB of text", b"words and words\n" * 6_600_000, "YAML is read up to 64 MiB"),
    ("one long line", b"x" * 30_000_000, "must be an object (a mapping), not 'xxx"),
    ("no version", b"kind: Pod\n", "apiVersion: is required"),
    (
        "a version that is a number",
        b"kind: Pod\napiVersion: 1\n",
        "apiVersion: must be a string that is not empty, not 1",
    ),
]


def validate(name: str, *, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return shoal("validate", "-f", name, stdin=stdin, cwd=cwd)


def assert_rejected(done: subprocess.CompletedProcess[str], message: str) -> None:
    stderr = done.stderr
    assert done.returncode == 2, stderr[:2000]
    assert message in stderr
    assert "Traceback" not in stderr
    assert all(line.startswith(("error: ", "warning: ", "skipped: ")) for line in stderr.splitlines())
    assert len(stderr) < 2000


@pytest.mark.parametrize("sentence, data, message", TEXTS, ids=[row[0] for row in TEXTS])
def test_invalid_text_is_rejected(tmp_path: Path, sentence: str, data: bytes, message: str) -> None:
    path = tmp_path / "input.yaml"
    path.write_bytes(data)
    assert_rejected(validate(str(path)), message)
    assert sentence


@pytest.mark.parametrize("sentence, data, message", TEXTS[:3], ids=[row[0] for row in TEXTS[:3]])
def test_standard_input_is_validated_like_a_file(sentence: str, data: bytes, message: str) -> None:
    assert_rejected(validate("-", stdin=data), message)
    assert sentence


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_no_error(closed: str) -> None:
    done = shell(f"{SHOAL_IN_SHELL} version --client {closed}")
    assert (done.returncode, done.stderr) == (0, "")


def test_endless_standard_input_is_rejected() -> None:
    done = shell(f"yes | {SHOAL_IN_SHELL} validate -f -")
    assert_rejected(done, "standard input: has 64 MiB of text or more")


def test_a_large_file_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hole.yaml"
    with path.open("wb") as file:
        file.truncate(2**40)
    assert_rejected(validate(str(path)), "hole.yaml: has 64 MiB of text or more")


PATHS = [
    ("a missing file", "nowhere.yaml", "nowhere.yaml: cannot be read: No such file or directory"),
    ("an empty name", "", "the file name is empty"),
    ("a directory without manifests", "empty", "empty: has no files that end in .yaml, .yml, .json"),
    ("a pipe", "pipe.yaml", "pipe.yaml: is not a regular file"),
    ("a directory with a pipe", "pipes", "pipe.yaml: is not a regular file"),
    ("a device", "/dev/zero", "/dev/zero: is not a regular file"),
    ("a dangling symbolic link", "broken.yaml", "broken.yaml: cannot be read: No such file or directory"),
    ("a symbolic link to itself", "loop.yaml", "loop.yaml: cannot be read: "),
    ("a name too long", "n" * 5000, "cannot be read: File name too long"),
]


@pytest.mark.parametrize("sentence, name, message", PATHS, ids=[row[0] for row in PATHS])
def test_unreadable_paths_are_rejected(tmp_path: Path, sentence: str, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    os.mkfifo(tmp_path / "pipes" / "pipe.yaml")
    (tmp_path / "broken.yaml").symlink_to(tmp_path / "gone")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    done = validate(name, cwd=tmp_path)
    if len(name) > 1000:
        done.stderr = done.stderr.replace(name, "long")
    assert_rejected(done, message)
    assert sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_read_permission_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.touch(mode=0)
    assert_rejected(validate(str(path)), "secret.yaml: cannot be read: Permission denied")
