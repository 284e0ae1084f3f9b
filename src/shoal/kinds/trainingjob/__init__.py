"""TrainingJob: trainers with parameter servers and a master, elastic between a minimum and a maximum.

`types` has the object, its defaults and its validation; `workload` says how a job becomes a workload and what
the scheduler writes back; `kind` implements the JobKind interface.
"""

from typing import Final

from shoal.api.registry import Type

TYPE: Final = Type(
    group="paddlepaddle.org", version="v1", kind="TrainingJob", plural="trainingjobs", short_name="tj"
)
