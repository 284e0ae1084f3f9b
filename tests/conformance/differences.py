"""Where a home cannot do as the suite says, and why.

Every entry is a case by name. It must fail there: once it holds, the suite fails until the entry is gone.
`docs/homes.md` tells users the same.
"""

from collections.abc import Mapping
from typing import Final

DIFFERENCES: Final[Mapping[str, Mapping[str, str]]] = {}
"""By home: the reason, for each case as `file::test[case]` without its home."""
