"""Type: the group, version, kind and names under which an API serves a kind.

It imports nothing but msgspec, so that commands that only need names start quickly.
"""

import msgspec


class Type(msgspec.Struct, frozen=True, kw_only=True):
    """Names and addresses of one kind.

    `index_label` is the label (or annotation) with the rank or index of a pod, where a job's pods have one.
    """

    group: str
    version: str
    kind: str
    plural: str
    short_name: str = ""
    namespaced: bool = True
    index_label: str = ""

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for core kinds."""
        return f"{self.group}/{self.version}" if self.group else self.version
