"""What Shoal's own kinds are called and where an API has them; nothing else: it is imported in no time."""

from typing import Final

import msgspec


class Type(msgspec.Struct, frozen=True, kw_only=True):
    """How objects of one kind are named and addressed."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for core kinds."""
        return f"{self.group}/{self.version}" if self.group else self.version


DIJOB: Final = Type(group="diengine.opendilab.org", version="v2alpha1", kind="DIJob", plural="dijobs")
TYJOB: Final = Type(group="tyrl.io", version="v1alpha1", kind="TYJob", plural="tyjobs")
TRAININGJOB: Final = Type(group="paddlepaddle.org", version="v1", kind="TrainingJob", plural="trainingjobs")
POOL: Final = Type(
    group="resource.aibee.cn", version="v1alpha1", kind="Pool", plural="pools", namespaced=False
)
OWN_TYPES: Final = (DIJOB, TYJOB, TRAININGJOB, POOL)
