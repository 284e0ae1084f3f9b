"""TrainingJob: trainers with parameter servers and a master, elastic between a minimum and a maximum.

`types` has the object, its defaults and its validation; `workload` says how a job becomes a workload and what
the scheduler writes back; `controller` creates the pods of `slots` as `pods` builds them; `kind` implements
the JobKind interface.
"""

from typing import Final

from shoal.api.registry import Type

TYPE: Final = Type(
    group="paddlepaddle.org", version="v1", kind="TrainingJob", plural="trainingjobs", short_name="tj"
)

SERVICE_PREFIX: Final = "tj-"
"""Beginning of the name of a job's headless service."""

ROLES: Final = ("master", "pserver", "trainer")
"""The roles, in the order in which their pods are created."""
