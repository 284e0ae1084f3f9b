"""The policies that are installed: Shoal's own, and those that other packages register."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from shoal.api.fields import FieldError, shown
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.policies.contract import Policy

GROUP: Final = "shoal.policies"
"""The group of entry points."""


class PolicyError(Exception):
    """Raised when a policy cannot be had: nobody registered it, or it does not load."""


class PolicyDiedError(PolicyError):
    """Raised when a policy did not come back: to ask it again at once would only take as long again."""


def names() -> list[str]:
    """What `elasticPolicy` can be."""
    return sorted({FULFILMENT, *(entry.name for entry in entry_points(group=GROUP))})


def load(name: str) -> Policy:
    """The policy of a name, ready to be asked."""
    made = _entry(name)
    try:
        policy: Policy = made.load()()
    except Exception as problem:
        raise PolicyError(f"policy {name} does not load: {type(problem).__name__}: {problem}") from problem
    for method in ("allocate", "optimize"):
        if not callable(getattr(policy, method, None)):
            raise PolicyError(f"policy {name} has no method {method}")
    return policy


def policy_errors(config: SchedulerConfig) -> Iterator[FieldError]:
    """Complain about a policy that is not there."""
    if config.elastic_policy not in names():
        known = ", ".join(names())
        yield FieldError(
            "elasticPolicy", f"'{shown(config.elastic_policy)}' is not registered; there is {known}"
        )


def _entry(name: str) -> EntryPoint:
    """Who registered a name: Shoal itself, where it has; else the first by what they point to."""
    found = sorted(
        entry_points(group=GROUP, name=name), key=lambda e: (not e.value.startswith(GROUP), e.value)
    )
    if not found:
        raise PolicyError(f"policy {name} is not registered")
    return found[0]
