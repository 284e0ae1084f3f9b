"""The command line within the test's own process: what it prints, and how it exits."""

import contextlib
import io
import sys
from typing import NamedTuple

from shoal.cli.main import main


class Done(NamedTuple):
    """What became of a command."""

    code: int
    out: str
    err: str


class _Paper(io.TextIOWrapper):
    """A stream that is kept, whoever closes it."""

    def __init__(self, text: str = "") -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return] # a BytesIO


def inside(*arguments: str, stdin: str = "") -> Done:
    """Run `shoal` with these arguments."""
    out, err = _Paper(), _Paper()
    before, sys.stdin = sys.stdin, _Paper(stdin)
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as left:
        code = left.code
    finally:
        sys.stdin = before
    assert isinstance(code, int)
    return Done(code, out.text(), err.text())
