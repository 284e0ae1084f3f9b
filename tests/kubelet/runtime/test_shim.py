"""Parts of the shim: its imports, its JSON encoder, and the parser of /proc."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kubelet.runtime.processes import SHIM_COMMAND
from shoal.kubelet.shim.process import ProcessStat
from shoal.kubelet.shim.records import encode_json

SOURCE = Path(SHIM_COMMAND[-1]).parents[3]
SLOW = {
    "json",
    "re",
    "enum",
    "signal",
    "typing",
    "contextlib",
    "functools",
    "pathlib",
    "subprocess",
    "asyncio",
}
"""Modules that take too long to import."""


@pytest.mark.parametrize("module", ["supervision", "command", "mounts"])
def test_the_shim_imports_only_fast_modules(module: str) -> None:
    script = (
        f"import sys; sys.path.append({str(SOURCE)!r}); import shoal.kubelet.shim.{module}; "
        "print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())  # noqa: S603
    foreign = (
        {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"shoal", "__main__"}
    )
    assert not foreign
    assert not loaded & SLOW
    assert {name for name in loaded if name.startswith("shoal.kubelet.r")} == set()


VALUES = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(fields=st.dictionaries(st.text(), VALUES | st.lists(st.text())))
def test_encoded_records_are_json(fields: dict[str, str | float | list[str] | None]) -> None:
    assert json.loads(encode_json(fields)) == fields


@given(name=st.text(st.characters(exclude_characters="\n", codec="utf-8")))
def test_process_names_may_contain_anything(name: str) -> None:
    numbers = " ".join(str(number) for number in range(4, 53))
    stat = ProcessStat(f"7 ({name}) S {numbers}")
    assert (stat.state, stat.parent, stat.session, stat.started) == ("S", 4, 6, 22)
