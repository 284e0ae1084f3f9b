"""`--sort-by`: objects in the order of one of their fields."""

import click

from shoal.cli.jsonpath import PathError, as_text, found
from shoal.cluster.resources import Object


def sort_key(path: str, thing: Object) -> tuple[int, float, str]:
    """Where an object comes: those without the field first, then by number, then by text."""
    try:
        values = found(path, thing)
    except PathError as problem:
        raise click.UsageError(str(problem)) from None
    match values:
        case []:
            return (0, 0.0, "")
        case [int() | float() as value, *_] if not isinstance(value, bool):
            return (1, float(value), "")
    return (2, 0.0, as_text(values[0]))
