"""Volumes: their contents, and mounts of containers."""

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


def pod(*manifest: Object, **spec: object) -> Object:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": 'say "x"', "a": "1"}}
    container = {"name": "main", "resources": {"limits": {"memory": "2Mi"}}}
    return {"metadata": metadata, "spec": {"containers": [container], "volumes": list(manifest), **spec}}


def named(**kind: object) -> Object:
    return {"name": "v", **kind}


LABELS = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
MEMORY = {
    "path": "in/memory",
    "resourceFieldRef": {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"},
}
CONTENTS: dict[str, tuple[Object, dict[str, bytes]]] = {
    "an empty directory": (named(emptyDir={}), {}),
    "a config map": (named(configMap={"name": "words"}), {"a": b"1", "b": b"2", "c": b"\x00\x01"}),
    "selected keys at other paths": (
        named(configMap={"name": "words", "items": [{"key": "a", "path": "x/y"}]}),
        {"x/y": b"1"},
    ),
    "an optional config map": (named(configMap={"name": "none", "optional": True}), {}),
    "a secret": (named(secret={"secretName": "keys"}), {"k": b"hush"}),
    "fields of the pod": (
        named(downwardAPI={"items": [LABELS, MEMORY]}),
        {"labels": b'a="1"\nb="say \\"x\\""', "in/memory": b"2"},
    ),
    "a projected volume": (
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


def files_below(root: Path) -> dict[str, bytes]:
    """The files of a volume as its containers see them."""
    visible = [path for path in root.iterdir() if not path.name.startswith("..")]
    found = [path for top in visible for path in (top, *top.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


@pytest.mark.parametrize("volume, files", CONTENTS.values(), ids=CONTENTS)
def test_contents_of_a_volume(tmp_path: Path, volume: Object, files: dict[str, bytes]) -> None:
    volumes.make_volumes(pod(volume), tmp_path, LOCATION, SOURCES)
    assert files_below(tmp_path / "v") == files


def test_file_modes_come_from_the_item_the_volume_or_the_default(tmp_path: Path) -> None:
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
def test_missing_references_are_errors(tmp_path: Path, target: Object) -> None:
    with pytest.raises(ConfigError):
        volumes.make_volumes(pod(named(configMap=target)), tmp_path, LOCATION, SOURCES)


def test_files_of_containers_are_kept(tmp_path: Path) -> None:
    manifest = pod(named(emptyDir={}))
    volumes.make_volumes(manifest, tmp_path, LOCATION, SOURCES)
    (tmp_path / "v" / "mine").touch()
    volumes.make_volumes(manifest, tmp_path, LOCATION, SOURCES)
    assert (tmp_path / "v" / "mine").exists()


def test_only_empty_directories_are_world_writable(tmp_path: Path) -> None:
    manifest = pod(named(emptyDir={}), {"name": "w", "configMap": {"name": "words"}})
    volumes.make_volumes(manifest, tmp_path, LOCATION, SOURCES)
    mount = {"name": "v", "mountPath": "/a", "subPath": "part"}
    volumes.container_mounts(manifest, {"volumeMounts": [mount]}, tmp_path, {})
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "v", tmp_path / "v/part", tmp_path / "w")]
    assert modes == [0o777, 0o777, 0o755]


def test_writes_do_not_follow_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "..new").symlink_to(tmp_path / "elsewhere")
    volumes.make_volumes(pod(named(secret={"secretName": "keys"})), tmp_path, LOCATION, SOURCES)
    assert (tmp_path / "v" / "k").read_bytes() == b"hush"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change groups")
def test_fs_group_owns_volumes_and_new_files(tmp_path: Path) -> None:
    secret = {"secretName": "keys", "defaultMode": 0o400}
    manifest = pod(named(emptyDir={}), {"name": "w", "secret": secret}, securityContext={"fsGroup": 1234})
    volumes.make_volumes(manifest, tmp_path, LOCATION, SOURCES)
    (tmp_path / "v" / "mine").touch()
    volumes.make_volumes(manifest, tmp_path, LOCATION, SOURCES)
    owned, mine = [tmp_path / "v", tmp_path / "w", tmp_path / "w/k"], tmp_path / "v" / "mine"
    assert {path.stat().st_gid for path in owned} == {1234}
    assert (tmp_path / "w/k").stat().st_mode & 0o777 == 0o440
    assert [path.stat().st_mode & 0o777 for path in owned[:2]] == [0o777, 0o755], "links cannot be replaced"
    assert mine.stat().st_gid == 1234, "new files inherit the group of the directory"


HOST_PATHS = {
    "anything": ("none", "", True),
    "a directory": ("directory", "Directory", True),
    "no directory": ("file", "Directory", False),
    "a directory that is created": ("new/deep", "DirectoryOrCreate", True),
    "a file in the way": ("file", "DirectoryOrCreate", False),
    "a file": ("file", "File", True),
    "no file": ("none", "File", False),
    "a file that is created": ("new", "FileOrCreate", True),
    "no socket": ("file", "Socket", False),
    "a device": ("/dev/null", "CharDevice", True),
}


@pytest.mark.parametrize("path, kind, valid", HOST_PATHS.values(), ids=HOST_PATHS)
def test_host_path_types_are_checked(tmp_path: Path, path: str, kind: str, *, valid: bool) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    manifest = pod(named(hostPath={"path": str(tmp_path / path), "type": kind}))
    if valid:
        volumes.make_volumes(manifest, tmp_path, LOCATION, {})
        return
    with pytest.raises(MountError):
        volumes.make_volumes(manifest, tmp_path, LOCATION, {})


def test_mounts(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    mounts = [
        {"name": "v", "mountPath": "/a", "readOnly": True},
        {"name": "v", "mountPath": "/b", "subPath": "part"},
        {"name": "v", "mountPath": "/c", "subPathExpr": "$(NAME)/x"},
        {"name": "h", "mountPath": "/d"},
    ]
    manifest = pod(named(emptyDir={}), {"name": "h", "hostPath": {"path": "/data"}})
    found = volumes.container_mounts(manifest, {"volumeMounts": mounts}, tmp_path, {"NAME": "me"})
    assert found == [
        Mount(str(tmp_path / "v"), "/a", read_only=True),
        Mount(str(tmp_path / "v" / "part"), "/b"),
        Mount(str(tmp_path / "v" / "me" / "x"), "/c"),
        Mount("/data", "/d"),
    ]


@pytest.mark.parametrize("sub_path", ["../out", "link/x", "/etc"])
def test_a_sub_path_cannot_leave_its_volume(tmp_path: Path, sub_path: str) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "link").symlink_to("/")
    mount = {"name": "v", "mountPath": "/a", "subPath": sub_path}
    with pytest.raises(MountError):
        volumes.container_mounts(pod(named(emptyDir={})), {"volumeMounts": [mount]}, tmp_path, {})


# --- updates -----------------------------------------------------------------------------------------------


def words(**data: str) -> dict[LocalReference, Object | None]:
    return {LocalReference("ConfigMap", "words"): {"kind": "ConfigMap", "data": data}}


def test_an_update_replaces_all_files_at_once(tmp_path: Path) -> None:
    manifest, root = pod(named(configMap={"name": "words"})), tmp_path / "v"
    volumes.make_volumes(manifest, tmp_path, LOCATION, words(a="1", b="1"))
    before = (root / "..data").resolve()
    volumes.refresh_volumes(manifest, tmp_path, LOCATION, words(a="2", c="2"))
    assert files_below(root) == {"a": b"2", "c": b"2"}
    assert {path.resolve().parent for path in (root / "a", root / "c")} == {(root / "..data").resolve()}
    assert not before.exists(), "old files are removed"


def test_any_key_can_be_the_name_of_a_file(tmp_path: Path) -> None:
    names = [".new", ".data", *map(str, range(50))]
    manifest = pod(named(configMap={"name": "words"}))
    volumes.make_volumes(manifest, tmp_path, LOCATION, words(**dict.fromkeys(names, "1")))
    assert files_below(tmp_path / "v") == dict.fromkeys(names, b"1")
    volumes.refresh_volumes(manifest, tmp_path, LOCATION, words(**dict.fromkeys(names, "2")))
    assert files_below(tmp_path / "v") == dict.fromkeys(names, b"2")


def test_an_open_file_survives_an_update(tmp_path: Path) -> None:
    manifest = pod(named(configMap={"name": "words"}))
    volumes.make_volumes(manifest, tmp_path, LOCATION, words(a="1"))
    with (tmp_path / "v" / "a").open() as opened:
        volumes.refresh_volumes(manifest, tmp_path, LOCATION, words(a="2"))
        assert opened.read() == "1"


def test_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    manifest = pod(named(configMap={"name": "words"}))
    volumes.make_volumes(manifest, tmp_path, LOCATION, words(a="1"))
    before = (tmp_path / "v" / "a").stat().st_ino
    volumes.refresh_volumes(manifest, tmp_path, LOCATION, words(a="1"))
    assert (tmp_path / "v" / "a").stat().st_ino == before


def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    manifest = pod(named(configMap={"name": "words"}))
    volumes.make_volumes(manifest, tmp_path, LOCATION, words(a="1"))
    (tmp_path / "v" / "..half-written").mkdir()
    volumes.refresh_volumes(manifest, tmp_path, LOCATION, words(a="2"))
    assert [path.name for path in (tmp_path / "v").iterdir() if path.name.startswith("..h")] == []


def test_a_refresh_without_the_source_keeps_the_files(tmp_path: Path) -> None:
    volume, other = named(configMap={"name": "words"}), {"name": "w", "configMap": {"name": "others"}}
    sources = words(a="1") | {LocalReference("ConfigMap", "others"): WORDS}
    volumes.make_volumes(pod(volume, other), tmp_path, LOCATION, sources)
    gone = {**sources, LocalReference("ConfigMap", "words"): None}
    gone[LocalReference("ConfigMap", "others")] = {"kind": "ConfigMap", "data": {"z": "9"}}
    volumes.refresh_volumes(pod(volume, other), tmp_path, LOCATION, gone)
    assert (files_below(tmp_path / "v"), files_below(tmp_path / "w")) == ({"a": b"1"}, {"z": b"9"})


def test_files_of_an_earlier_version_become_links(tmp_path: Path) -> None:
    (tmp_path / "v" / "x").mkdir(parents=True)
    (tmp_path / "v" / "a").write_text("old")
    items = [{"key": "a", "path": "x/y"}, {"key": "b", "path": "a"}]
    volumes.make_volumes(pod(named(configMap={"name": "words", "items": items})), tmp_path, LOCATION, SOURCES)
    assert files_below(tmp_path / "v") == {"x/y": b"1", "a": b"2"}


def test_names_are_replaced_where_hosts_files_cannot_be_mounted(tmp_path: Path) -> None:
    volumes.make_volumes(
        pod(named(configMap={"name": "words"})),
        tmp_path,
        LOCATION,
        SOURCES,
        lambda text: text.replace("1", "9"),
    )
    assert files_below(tmp_path / "v") == {"a": b"9", "b": b"2", "c": b"\x00\x01"}
