"""Where a home cannot do as the suite says, and why.

Every entry is a case by name. It must fail there: once it holds, the suite fails until the entry is gone.
`docs/homes.md` tells users the same.
"""

from collections.abc import Mapping
from typing import Final

_NOT_BASE64: Final = (
    "test_refusals.py::test_a_body_that_makes_no_sense_is_refused[secrets that are not in base64]"
)
_ADDRESS: Final = "test_refusals.py::test_a_service_has_an_address"

_OURS: Final = {
    _ADDRESS: "nothing here carries packets to a virtual address: services are headless or mere names",
    _NOT_BASE64: "it is told which one: Invalid (422) with the key, where Kubernetes says BadRequest (400)",
}

DIFFERENCES: Final[Mapping[str, Mapping[str, str]]] = dict.fromkeys(
    ("embedded", "https", "simulated", "connected"), _OURS
)
"""By home: the reason, for each case as `file::test[case]` without its home."""
