"""Run the command line inside the test's process, and capture its output and exit code."""

import contextlib
import io
import sys
from typing import NamedTuple

from shoal.cli.main import main


class Result(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str


class _CapturedStream(io.TextIOWrapper):
    """A text stream in memory whose contents can be read after the command."""

    def __init__(self, text: str = "") -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return] # a BytesIO


def invoke(*arguments: str, stdin: str = "") -> Result:
    """Run `shoal` with these arguments."""
    out, err = _CapturedStream(), _CapturedStream()
    before, sys.stdin = sys.stdin, _CapturedStream(stdin)
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as exited:
        code = exited.code
    finally:
        sys.stdin = before
    assert isinstance(code, int)
    return Result(code, out.text(), err.text())
