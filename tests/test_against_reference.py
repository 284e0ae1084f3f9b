"""The engine and the reference scheduler give the same plans for thousands of small random worlds."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests import reference
from tests.builders import Case, Object, check, codes
from tests.support import plan
from tests.test_cases_elastic import CASES as ELASTIC_CASES
from tests.test_cases_others import CASES as OTHER_CASES
from tests.test_cases_pools import CASES as POOL_CASES
from tests.test_cases_tyjob import CASES as TYJOB_CASES
from tests.worlds import World, elastic_worlds, puzzles, shared_worlds, worlds

WORLDS_PER_PART = 400
PARTS = [
    (kind, part, cycles)
    for kind, parts, cycles in (
        (worlds, 8, 1),
        (puzzles, 2, 1),
        (shared_worlds, 8, 1),
        (shared_worlds, 1, 4),
        (elastic_worlds, 6, 1),
        (elastic_worlds, 3, 4),
    )
    for part in range(parts)
]
VERDICT_FIELDS = ("state", "pool", "priority", "jobPriority", "position", "min", "max", "current", "target")
PLACEMENT_FIELDS = ("pod", "job", "role", "node", "pool", "home", "borrowed")
NODE_FIELDS = ("allocation", "nominated")
CASES = (
    TYJOB_CASES
    | OTHER_CASES
    | {f"pools: {name}": case for name, case in POOL_CASES.items()}
    | {f"elastic: {name}": case for name, case in ELASTIC_CASES.items()}
)


@pytest.mark.parametrize("kind, part, cycles", PARTS)
def test_engine_and_reference_agree(
    kind: Callable[[], SearchStrategy[World]], part: int, cycles: int
) -> None:
    @seed(part)
    @settings(
        max_examples=WORLDS_PER_PART,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # shrinking two planners is slow, and the worlds are small anyway
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(kind())
    def agree(world: World) -> None:
        engine = plan(world.objects, config=world.config, now=world.now, cycles=cycles)
        expected = reference.plan(world.objects, world.config, world.now, cycles=cycles)
        assert decisions(engine) == decisions(expected)
        assert verdicts(engine) == verdicts(expected)
        assert convergence(engine) == convergence(expected)
        assert shares(engine) == pytest.approx(shares(expected), abs=1e-3)

    agree()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_reference_satisfies_the_cases(case: Case) -> None:
    answer = reference.plan(list(case.objects), case.config, case.now, cycles=case.cycles)
    check(case, answer, messages=False)


def decisions(answer: Object) -> dict[str, Any]:
    """Placements in the order of workloads, and evictions; the order within one workload may differ."""
    by_job = [
        sorted(tuple(p[key] for key in PLACEMENT_FIELDS) for p in placed)
        for _, placed in groupby(answer["placements"], key=lambda p: str(p["job"]))
    ]
    evicted = [(e["pod"], e["job"], e["node"], e["reason"], e.get("for")) for e in answer["evictions"]]
    return {"placements": by_job, "evictions": evicted}


def verdicts(answer: Object) -> dict[str, Object]:
    return {
        job["job"]: {key: job[key] for key in VERDICT_FIELDS + NODE_FIELDS} | {"reasons": sorted(codes(job))}
        for job in answer["jobs"]
    }


def convergence(answer: Object) -> tuple[int, bool]:
    return answer["cycles"], answer["stable"]


def shares(answer: Object) -> dict[str, float]:
    return {job["job"]: job["share"] for job in answer["jobs"]}
