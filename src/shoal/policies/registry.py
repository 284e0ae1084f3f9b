"""Registry of elastic policies: Shoal's own, and those that installed packages register."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from shoal.api.fields import FieldError, shown
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.policies.contract import Policy

GROUP: Final = "shoal.policies"
"""The entry-point group of policies."""


class PolicyError(Exception):
    """Raised when a policy gives no valid answer: it is not registered, does not load, or fails."""


class PolicyDiedError(PolicyError):
    """Raised when the process of a policy ended or did not answer in time.

    The caller should not ask it again at once: that would probably take as long again.
    """


def names() -> list[str]:
    """The valid values of `elasticPolicy`."""
    return sorted({FULFILMENT, *(entry.name for entry in entry_points(group=GROUP))})


def load(name: str) -> Policy:
    """Create an instance of the policy with this name."""
    entry = _entry(name)
    try:
        policy: Policy = entry.load()()
    except Exception as problem:
        raise PolicyError(f"policy {name} does not load: {type(problem).__name__}: {problem}") from problem
    for method in ("allocate", "optimize"):
        if not callable(getattr(policy, method, None)):
            raise PolicyError(f"policy {name} has no method {method}")
    return policy


def policy_errors(config: SchedulerConfig) -> Iterator[FieldError]:
    """The error of a configuration with an unregistered policy."""
    if config.elastic_policy not in names():
        known = ", ".join(names())
        yield FieldError(
            "elasticPolicy", f"'{shown(config.elastic_policy)}' is not registered; choose one of: {known}"
        )


def _entry(name: str) -> EntryPoint:
    """The entry point of a name: Shoal's own first, then the first by its value."""
    found = sorted(
        entry_points(group=GROUP, name=name), key=lambda e: (not e.value.startswith(GROUP), e.value)
    )
    if not found:
        raise PolicyError(f"policy {name} is not registered")
    return found[0]
