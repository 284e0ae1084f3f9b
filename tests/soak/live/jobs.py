"""Jobs of short real processes, of all kinds, and what their users change."""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shoal.cluster.resources import Object, resource_of
from tests.builders import POOL, priority_class, template
from tests.soak.jobs import JOB_KINDS, JobChange
from tests.soak.live import worker

POOLS: Final = ("a", "b")
CLASSES: Final = [priority_class("low", -10), priority_class("high", 1000)]
_TIME_SCALE: Final = 1 / 200
"""Users of simulated days change a job after minutes, these after seconds."""
_CODES: Final = ("0", "0", "0", "3,0", "3,3,0", "1,1,1,1,0")
"""Exit codes of the runs in a slot; the last one is repeated."""


class LiveJob(NamedTuple):
    """A job and the changes by its user, each after seconds."""

    manifest: Object
    changes: Sequence[JobChange]


def random_job(rng: random.Random, name: str, directory: Path) -> LiveJob:
    """Return a job of any kind whose processes record their runs in a directory."""
    pool = rng.choice(POOLS)
    made = _template(rng, name, directory, pool)
    kind = rng.choice([*JOB_KINDS, "Job"])
    spec, changes = JOB_KINDS[kind](rng, made) if kind in JOB_KINDS else (_batch_job(rng, made), [])
    metadata = {"name": name, "namespace": "default", "annotations": {POOL: pool}}
    body = {"apiVersion": resource_of(kind).api_version, "kind": kind, "metadata": metadata, "spec": spec}
    return LiveJob(body, [change._replace(delay=change.delay * _TIME_SCALE) for change in changes])


def _template(rng: random.Random, name: str, directory: Path, pool: str) -> Object:
    seconds, stop_code = round(rng.uniform(0.5, 6), 1), rng.choice((0, 143))
    made = template(
        cpu=rng.choice((1, 2, 2)), priority=rng.choice((None, None, "low", "high")), annotations={POOL: pool}
    )
    arguments = [str(directory), name, str(seconds), rng.choice(_CODES), str(stop_code)]
    made["spec"]["containers"][0]["command"] = [sys.executable, "-I", "-S", worker.__file__, *arguments]
    made["spec"]["terminationGracePeriodSeconds"] = 20
    return made


def _batch_job(rng: random.Random, made: Object) -> Object:
    made["spec"]["restartPolicy"] = "Never"
    completions = rng.randint(1, 4)
    return {
        "completions": completions,
        "parallelism": rng.randint(1, completions),
        "completionMode": rng.choice(("Indexed", "NonIndexed")),
        "backoffLimit": rng.randint(0, 2),
        "template": made,
    }
