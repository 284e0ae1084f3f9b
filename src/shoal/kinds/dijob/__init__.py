"""DIJob: ranks of one template, or tasks of several, for reinforcement learning with DI-engine.

`types` has the object, its defaults and its validation; `workload` says how a job becomes a workload and what
the scheduler writes back; `controller` runs a job, `ranks` tells which pods it wants and `pods` builds them;
`kind` implements the JobKind interface.
"""

from typing import Final

from shoal.api.registry import Type

RANK_LABEL: Final = "diengine/rank"
SERVICE_PREFIX: Final = "di-"

TYPE: Final = Type(
    group="diengine.opendilab.org",
    version="v2alpha1",
    kind="DIJob",
    plural="dijobs",
    short_name="dijob",
    index_label=RANK_LABEL,
)
