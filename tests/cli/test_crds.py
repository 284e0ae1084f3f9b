"""`shoal crds`: which kinds, and in which format."""

import json

import pytest
import yaml
from click.testing import CliRunner

from shoal.api import crds as definitions
from shoal.api import registry
from shoal.cli.main import cli

ALL = [definitions.crd(kind) for kind in registry.kinds()]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["crds", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_all_kinds_as_yaml() -> None:
    assert list(yaml.safe_load_all(run())) == ALL
    assert "&id" not in run()


def test_all_kinds_as_json() -> None:
    listed = json.loads(run("-o", "json"))
    assert (listed["kind"], listed["items"]) == ("List", ALL)


@pytest.mark.parametrize("name", ["TYJob", "tyjob", "tyjobs", "tyjobs.tyrl.io"])
def test_one_kind(name: str) -> None:
    assert json.loads(run("-o", "json", name))["metadata"]["name"] == "tyjobs.tyrl.io"


def test_several_kinds() -> None:
    names = [made["spec"]["names"]["kind"] for made in yaml.safe_load_all(run("pool", "dijob"))]
    assert names == ["Pool", "DIJob"]


def test_unknown_kind() -> None:
    done = CliRunner().invoke(cli, ["crds", "pod"])
    assert done.exit_code == 2
    assert "pod is not one of DIJob, TYJob, TrainingJob, Pool" in done.stderr
