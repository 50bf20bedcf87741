"""A small scatter plot as SVG, without a plotting library: logarithmic y axis, one colour a series."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 44, 52
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point; `y` above 0."""

    x: float
    y: float
    label: str
    series: str


def scatter_svg(points: Sequence[Point], *, title: str, x_title: str, y_title: str) -> str:
    """Return the plot as an SVG document. Raises ValueError without a point."""
    if not points:
        raise ValueError("nothing to plot")
    x_low, x_high = 0.95 * min(point.x for point in points), 1.05 * max(point.x for point in points)
    y_low, y_high = math.log10(0.8 * min(point.y for point in points)), math.log10(1.25 * max(point.y for point in points))

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)
        down = _HEIGHT - _BOTTOM - (math.log10(y) - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)
        return round(across, 1), round(down, 1)

    parts = [*_frame(title, x_title, y_title)]
    for value in _ticks(x_low, x_high):
        across, _ = place(value, points[0].y)
        parts.append(_text(across, _HEIGHT - _BOTTOM + 18, f"{value:g}", anchor="middle"))
    for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50):
        if y_low <= math.log10(value) <= y_high:
            _, down = place(points[0].x, value)
            parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{down}" y2="{down}" stroke="#d8dee4"/>')
            parts.append(_text(_LEFT - 8, down + 4, f"{value:g}", anchor="end"))
    for series, colour in zip(dict.fromkeys(point.series for point in points), _COLOURS, strict=False):
        for point in points:
            if point.series == series:
                across, down = place(point.x, point.y)
                parts.append(f'<circle cx="{across}" cy="{down}" r="4" fill="{colour}"/>')
                parts.append(_text(across + 7, down + 4, point.label, colour=colour))
    return "\n".join([*parts, *_legend(points), "</svg>\n"])


def _frame(title: str, x_title: str, y_title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 22, title, size=14),
        _text((_WIDTH + _LEFT) / 2, _HEIGHT - 12, x_title, anchor="middle"),
        f'<text transform="translate(18 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>',
        f'<path d="M{_LEFT} {_TOP} V{_HEIGHT - _BOTTOM} H{_WIDTH - _RIGHT}" fill="none" stroke="#57606a"/>',
    ]


def _legend(points: Sequence[Point]) -> list[str]:
    names = dict.fromkeys(point.series for point in points)
    return [
        _text(_WIDTH - _RIGHT - 110, _TOP + 16 * row, name, colour=colour)
        for row, (name, colour) in enumerate(zip(names, _COLOURS, strict=False), start=1)
    ]


def _ticks(low: float, high: float) -> list[float]:
    step = next(step for step in (0.5, 1, 2, 5, 10, 20, 50, 100) if (high - low) / step <= 8)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#1f2328", size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(text)}</text>'
