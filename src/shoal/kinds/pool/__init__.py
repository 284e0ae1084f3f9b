"""Pool: a set of nodes with an owner, and the terms on which other pools may use it.

The object itself is in `shoal.api.pool`; `kind` says how it is served and shown. It is not a job.
"""

from typing import Final

from shoal.api.registry import Type

TYPE: Final = Type(
    group="resource.aibee.cn",
    version="v1alpha1",
    kind="Pool",
    plural="pools",
    short_name="pool",
    namespaced=False,
)
