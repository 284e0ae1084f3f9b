"""`shoal annotate`: annotations of objects, set, changed and taken away."""

from collections.abc import Sequence
from typing import Any, Final

import click

from shoal.cli.input.options import tagging_options
from shoal.cli.input.session import Session
from shoal.cli.input.tagging import Words, tag_all

_WORDS: Final = Words("annotations", "annotation", "annotated")


@click.command()
@tagging_options
def annotate(session: Session, wanted: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Set annotations (KEY=VALUE), or take them away (KEY-).

    One that has another value already is only changed with --overwrite.

    \b
    Examples:
      shoal annotate job/train note="second try"
      shoal annotate pods --all note-
      shoal annotate pool/a owner=me --overwrite
    """
    tag_all(session, _WORDS, wanted, **said)
