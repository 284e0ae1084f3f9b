"""Volumes: what is in them at first, and where containers see them."""

import base64
import os
from pathlib import Path

import pytest

from shoal.cluster.resources import Object
from shoal.kubelet import volumes
from shoal.kubelet.nodes import LocalNode
from shoal.kubelet.references import ConfigError, LocalReference, PodLocation
from shoal.kubelet.runtime import Mount
from shoal.kubelet.volumes import MountError

LOCATION = PodLocation(node=LocalNode(name="n1", cpu=4000, memory=2**30), ip="127.5.0.1")
WORDS: Object = {"kind": "ConfigMap", "data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAE="}}
KEYS: Object = {"kind": "Secret", "data": {"k": base64.b64encode(b"hush").decode()}}
SOURCES = {LocalReference("ConfigMap", "words"): WORDS, LocalReference("Secret", "keys"): KEYS}


def pod(*wanted: Object, **spec: object) -> Object:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": 'say "x"', "a": "1"}}
    container = {"name": "main", "resources": {"limits": {"memory": "2Mi"}}}
    return {"metadata": metadata, "spec": {"containers": [container], "volumes": list(wanted), **spec}}


def named(**kind: object) -> Object:
    return {"name": "v", **kind}


LABELS = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
MEMORY = {
    "path": "in/memory",
    "resourceFieldRef": {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"},
}
CONTENTS: dict[str, tuple[Object, dict[str, bytes]]] = {
    "nothing": (named(emptyDir={}), {}),
    "a config map": (named(configMap={"name": "words"}), {"a": b"1", "b": b"2", "c": b"\x00\x01"}),
    "some of it elsewhere": (
        named(configMap={"name": "words", "items": [{"key": "a", "path": "x/y"}]}),
        {"x/y": b"1"},
    ),
    "one that need not be there": (named(configMap={"name": "none", "optional": True}), {}),
    "a secret": (named(secret={"secretName": "keys"}), {"k": b"hush"}),
    "fields of the pod": (
        named(downwardAPI={"items": [LABELS, MEMORY]}),
        {"labels": b'a="1"\nb="say \\"x\\""', "in/memory": b"2"},
    ),
    "all together": (
        named(
            projected={
                "sources": [
                    {"configMap": {"name": "words", "items": [{"key": "a", "path": "a"}]}},
                    {"secret": {"name": "keys"}},
                    {"downwardAPI": {"items": [MEMORY]}},
                ]
            }
        ),
        {"a": b"1", "k": b"hush", "in/memory": b"2"},
    ),
}


@pytest.mark.parametrize("volume, files", CONTENTS.values(), ids=CONTENTS)
def test_what_is_in_a_volume(tmp_path: Path, volume: Object, files: dict[str, bytes]) -> None:
    volumes.make_volumes(pod(volume), tmp_path, LOCATION, SOURCES)
    root = tmp_path / "v"
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert found == files


def test_modes_are_those_of_the_item_the_volume_or_the_usual_one(tmp_path: Path) -> None:
    items = [{"key": "a", "path": "a", "mode": 0o400}, {"key": "b", "path": "b"}]
    volumes.make_volumes(
        pod(named(configMap={"name": "words", "items": items, "defaultMode": 0o640})),
        tmp_path,
        LOCATION,
        SOURCES,
    )
    assert [(tmp_path / "v" / name).stat().st_mode & 0o777 for name in "ab"] == [0o400, 0o640]


@pytest.mark.parametrize(
    "target", [{"name": "none"}, {"name": "words", "items": [{"key": "z", "path": "z"}]}]
)
def test_what_must_be_there_and_is_not_is_said(tmp_path: Path, target: Object) -> None:
    with pytest.raises(ConfigError):
        volumes.make_volumes(pod(named(configMap=target)), tmp_path, LOCATION, SOURCES)


def test_what_a_container_left_in_a_volume_stays(tmp_path: Path) -> None:
    wanted = pod(named(emptyDir={}))
    volumes.make_volumes(wanted, tmp_path, LOCATION, SOURCES)
    (tmp_path / "v" / "mine").touch()
    volumes.make_volumes(wanted, tmp_path, LOCATION, SOURCES)
    assert (tmp_path / "v" / "mine").exists()


def test_everybody_may_write_where_nothing_is_written_for_them(tmp_path: Path) -> None:
    wanted = pod(named(emptyDir={}), {"name": "w", "configMap": {"name": "words"}})
    volumes.make_volumes(wanted, tmp_path, LOCATION, SOURCES)
    mount = {"name": "v", "mountPath": "/a", "subPath": "part"}
    volumes.container_mounts(wanted, {"volumeMounts": [mount]}, tmp_path, {})
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "v", tmp_path / "v/part", tmp_path / "w")]
    assert modes == [0o777, 0o777, 0o755]


def test_a_file_is_written_to_where_it_belongs_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / ".k.new").symlink_to(tmp_path / "elsewhere")
    volumes.make_volumes(pod(named(secret={"secretName": "keys"})), tmp_path, LOCATION, SOURCES)
    assert (tmp_path / "v" / "k").read_bytes() == b"hush"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_group_has_what_it_was_given_and_what_is_made_in_it(tmp_path: Path) -> None:
    secret = {"secretName": "keys", "defaultMode": 0o400}
    wanted = pod(named(emptyDir={}), {"name": "w", "secret": secret}, securityContext={"fsGroup": 1234})
    volumes.make_volumes(wanted, tmp_path, LOCATION, SOURCES)
    (tmp_path / "v" / "mine").touch()
    volumes.make_volumes(wanted, tmp_path, LOCATION, SOURCES)
    given, mine = [tmp_path / "v", tmp_path / "w", tmp_path / "w/k"], tmp_path / "v" / "mine"
    assert {path.stat().st_gid for path in given} == {1234}
    assert (tmp_path / "w/k").stat().st_mode & 0o777 == 0o440
    assert mine.stat().st_gid == 1234, "the directory is the group's, and so is what is made in it"


HOST_PATHS = {
    "anything": ("none", "", True),
    "a directory": ("directory", "Directory", True),
    "no directory": ("file", "Directory", False),
    "a directory that is made": ("new/deep", "DirectoryOrCreate", True),
    "a file in the way": ("file", "DirectoryOrCreate", False),
    "a file": ("file", "File", True),
    "no file": ("none", "File", False),
    "a file that is made": ("new", "FileOrCreate", True),
    "no socket": ("file", "Socket", False),
    "a device": ("/dev/null", "CharDevice", True),
}


@pytest.mark.parametrize("path, kind, fine", HOST_PATHS.values(), ids=HOST_PATHS)
def test_paths_of_the_host_are_what_they_are_said_to_be(
    tmp_path: Path, path: str, kind: str, *, fine: bool
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    wanted = pod(named(hostPath={"path": str(tmp_path / path), "type": kind}))
    if fine:
        volumes.make_volumes(wanted, tmp_path, LOCATION, {})
        return
    with pytest.raises(MountError):
        volumes.make_volumes(wanted, tmp_path, LOCATION, {})


def test_mounts(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    mounts = [
        {"name": "v", "mountPath": "/a", "readOnly": True},
        {"name": "v", "mountPath": "/b", "subPath": "part"},
        {"name": "v", "mountPath": "/c", "subPathExpr": "$(WHO)/x"},
        {"name": "h", "mountPath": "/d"},
    ]
    wanted = pod(named(emptyDir={}), {"name": "h", "hostPath": {"path": "/data"}})
    found = volumes.container_mounts(wanted, {"volumeMounts": mounts}, tmp_path, {"WHO": "me"})
    assert found == [
        Mount(str(tmp_path / "v"), "/a", read_only=True),
        Mount(str(tmp_path / "v" / "part"), "/b"),
        Mount(str(tmp_path / "v" / "me" / "x"), "/c"),
        Mount("/data", "/d"),
    ]


@pytest.mark.parametrize("inner", ["../out", "link/x", "/etc"])
def test_a_part_of_a_volume_is_no_way_out_of_it(tmp_path: Path, inner: str) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "link").symlink_to("/")
    mount = {"name": "v", "mountPath": "/a", "subPath": inner}
    with pytest.raises(MountError):
        volumes.container_mounts(pod(named(emptyDir={})), {"volumeMounts": [mount]}, tmp_path, {})
