"""Known differences of homes from Kubernetes, with reasons.

Every entry is a case by name, which must fail in that home: when it passes, the suite fails until the entry
is removed. `docs/homes.md` has the same table for users.
"""

from collections.abc import Mapping
from typing import Final

_NOT_BASE64: Final = "test_refusals.py::test_an_undecodable_body_is_refused[secrets that are not in base64]"
_ADDRESS: Final = "test_refusals.py::test_a_service_has_an_address"

_OURS: Final = {
    _ADDRESS: "there is no service proxy: services must be headless or of type ExternalName",
    _NOT_BASE64: "the error is Invalid (422) with the key; Kubernetes returns BadRequest (400)",
}

DIFFERENCES: Final[Mapping[str, Mapping[str, str]]] = dict.fromkeys(
    ("embedded", "https", "simulated", "connected"), _OURS
)
"""By home: the reason for each case, as `file::test[case]` without the home."""
