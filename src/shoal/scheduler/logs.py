"""Logs: a few words, and facts by name, `cycle placed=3 seconds=0.012`, on the logging of Python.

It is all that is needed of structured logs, without another dependency: a handler that writes JSON finds the
facts in `record.facts`.
"""

import logging

import msgspec


def tell(log: logging.Logger, level: int, event: str, **facts: object) -> None:
    """Log an event with its facts."""
    if log.isEnabledFor(level):
        text = " ".join([event, *(f"{name}={_shown(value)}" for name, value in facts.items())])
        log.log(level, "%s", text, extra={"facts": {"event": event} | facts})


def _shown(value: object) -> str:
    """A fact in one piece: in quotes where it would fall apart."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if text and not set(text) & set(' "=\n') else msgspec.json.encode(text).decode()
