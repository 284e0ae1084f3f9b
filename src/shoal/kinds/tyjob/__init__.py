"""TYJob: a leader and sets of workers.

`types` has the object, its defaults and its validation; `workload` says how a job becomes a workload and what
the scheduler writes back; `controller` creates the pods of `slots` as `pods` builds them; `kind` implements
the JobKind interface.
"""

from typing import Final

from shoal.api.registry import Type

TYPE: Final = Type(group="tyrl.io", version="v1alpha1", kind="TYJob", plural="tyjobs", short_name="tyj")

SERVICE_PREFIX: Final = "ty-"
"""Beginning of the name of a job's headless service."""
