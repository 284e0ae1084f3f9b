"""`shoal label`: labels of objects, set, changed and taken away."""

from collections.abc import Sequence
from typing import Any, Final

import click

from shoal.cli.input.options import tagging_options
from shoal.cli.input.session import Session
from shoal.cli.input.tagging import Words, tag_all

_WORDS: Final = Words("labels", "label", "labeled")


@click.command()
@tagging_options
def label(session: Session, wanted: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Set labels (KEY=VALUE), or take them away (KEY-).

    One that has another value already is only changed with --overwrite.

    \b
    Examples:
      shoal label pod web tier=front
      shoal label pods -l app=web tier-
      shoal label node/n1 team=a --overwrite
    """
    tag_all(session, _WORDS, wanted, **said)
