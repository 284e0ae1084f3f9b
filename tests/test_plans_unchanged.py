"""The plans of the example worlds, byte for byte: `-o json`, after one cycle and after up to twenty.

The files in `tests/fixtures/plans/` were written by Shoal 0.1.0. A change that is meant to keep all decisions
must leave them as they are; a change of decisions rewrites them, and the diff shows what differs.
"""

from pathlib import Path

import pytest

from tests.cli.in_process import invoke

ROOT = Path(__file__).parents[1]
WORLDS = ROOT / "examples" / "worlds"
PLANS = ROOT / "tests" / "fixtures" / "plans"
OPTIONS: dict[str, tuple[str, ...]] = {"": (), "-20": ("--cycles", "20")}
"""End of the fixture's name, and the options of `shoal plan` that its output depends on."""
CASES = [(world, suffix) for world in sorted(WORLDS.glob("*.yaml")) for suffix in OPTIONS]


def fixture(world: Path, suffix: str) -> Path:
    return PLANS / f"{world.stem}{suffix}.json"


def command(world: Path, suffix: str) -> str:
    """The command that writes a fixture, for the root of the repository."""
    options = "".join(f" {option}" for option in OPTIONS[suffix])
    source, target = world.relative_to(ROOT), fixture(world, suffix).relative_to(ROOT)
    return f"shoal plan -f {source}{options} -o json > {target}"


@pytest.mark.parametrize("world, suffix", CASES, ids=[f"{world.stem}{suffix}" for world, suffix in CASES])
def test_the_plan_is_the_same_to_the_byte(world: Path, suffix: str) -> None:
    kept = fixture(world, suffix)
    assert kept.exists(), f"{world.name} has no fixture; write it with: {command(world, suffix)}"
    done = invoke("plan", "-f", str(world), *OPTIONS[suffix], "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert done.out.encode() == kept.read_bytes(), (
        f"the plan of {world.name} has changed; if that is intended, run: {command(world, suffix)}"
    )


def test_every_fixture_belongs_to_a_world() -> None:
    assert set(PLANS.iterdir()) == {fixture(world, suffix) for world, suffix in CASES}
