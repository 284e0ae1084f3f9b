"""Plots as SVG: stacked areas over time, and one percentage as a line above them."""

import colorsys
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 860, 360, 56, 40, 40
_STEPS = 4
"""Lines of the grid."""


class Area(NamedTuple):
    """A value over time."""

    name: str
    values: Sequence[float]


def stacked_plot(
    title: str, times: Sequence[float], areas: Sequence[Area], percentage: tuple[str, Sequence[float]]
) -> str:
    """Return a plot of areas on top of each other."""
    top = _rounded_up(max(map(sum, zip(*(area.values for area in areas), strict=True)), default=1))
    size = f"{WIDTH + LEFT * 2} {HEIGHT + TOP + BOTTOM}"
    font = 'font-family="DejaVu Sans, Helvetica, sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" {font}>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
        *_areas(times, areas, top),
        *_grid(times, top),
        _line(times, percentage[1]),
        f'<text x="{LEFT + WIDTH}" y="{TOP - 6}" text-anchor="end">— {escape(percentage[0])} (right)</text>',
        "</svg>\n",
    ]
    return "\n".join(parts)


def _areas(times: Sequence[float], areas: Sequence[Area], top: float) -> Iterator[str]:
    below = [0.0] * len(times)
    for number, area in enumerate(areas):
        above = [a + b for a, b in zip(below, area.values, strict=True)]
        outline = [*zip(times, above, strict=True), *reversed(list(zip(times, below, strict=True)))]
        points = " ".join(_point(times, time, value / top) for time, value in outline)
        name = escape(area.name)
        yield f'<polygon points="{points}" fill="{_colour(number)}"><title>{name}</title></polygon>'
        below = above


def _grid(times: Sequence[float], top: float) -> Iterator[str]:
    for step in range(_STEPS + 1):
        share = step / _STEPS
        y = TOP + HEIGHT * (1 - share)
        yield f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#0002"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{top * share:g}</text>'
        yield f'<text x="{LEFT + WIDTH + 6}" y="{y + 4:.1f}">{share:.0%}</text>'
    for time in range(0, int(times[-1]) + 1, 100):
        x = _point(times, time, 0).partition(",")[0]
        yield f'<text x="{x}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{time} s</text>'


def _line(times: Sequence[float], percentages: Sequence[float]) -> str:
    points = " ".join(
        _point(times, time, value / 100) for time, value in zip(times, percentages, strict=True)
    )
    return f'<polyline points="{points}" fill="none" stroke="black" stroke-width="1.5"/>'


def _point(times: Sequence[float], time: float, share: float) -> str:
    return f"{LEFT + WIDTH * time / times[-1]:.1f},{TOP + HEIGHT * (1 - share):.1f}"


def _colour(number: int) -> str:
    red, green, blue = (int(255 * part) for part in colorsys.hls_to_rgb(number * 0.381966 % 1, 0.68, 0.55))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _rounded_up(value: float) -> float:
    step = 60 if value > 120 else 6
    return max(step, -(-value // step) * step)
