"""SVG charts for light and dark pages: bar charts per table, and line charts over the log size."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from benchmarks.report.table import format_number

WIDTH = 720
COLORS = {
    "Annals": "#e8590c",
    "Annals, stream": "#c2a000",
    "UmaDB": "#1c7ed6",
    "hat-event": "#2b9a3e",
    "eventsourcing": "#ae3ec9",
    "Spark": "#e8590c",
    "DuckDB": "#1c7ed6",
}
OTHER = "#868e96"

_STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #454c53 }
.title { font-weight: 600 }
.line { stroke: #d0d7de; stroke-width: 1 }
@media (prefers-color-scheme: dark) { text { fill: #c4ccd4 } .line { stroke: #3d444d } }
</style>"""

_BAR, _GAP = 16, 14
_LABEL = 110
_PANEL_WIDTH, _PANEL_HEIGHT = 350, 210
_LEFT, _TOP, _BOTTOM, _RIGHT = 50, 30, 28, 14


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric over the log size, with one series per peer."""

    title: str
    series: Mapping[str, Sequence[tuple[int, float]]]


def bars(rows: Iterable[tuple[str, Mapping[str, float]]]) -> str:
    """One bar per peer in each row. Each row has its own scale."""
    parts, y = [], _GAP
    for title, values in rows:
        parts.append(_text(0, y + 4, title, "title"))
        y += _GAP
        max_value = max(values.values())
        for peer, value in values.items():
            width = max(value / max_value * (WIDTH - _LABEL - 80), 1)
            parts.append(_text(_LABEL - 8, y + 12, peer, anchor="end"))
            parts.append(f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR - 3}" fill="{_color(peer)}"/>')
            parts.append(_text(_LABEL + width + 6, y + 11, format_number(value)))
            y += _BAR
        y += _GAP
    return _svg(y, parts)


def lines(panels: Sequence[Panel]) -> str:
    """Two panels per row with logarithmic axes and a shared legend."""
    peers = list(dict.fromkeys(peer for panel in panels for peer in panel.series))
    parts, x = [], 0.0
    for peer in peers:
        parts.append(f'<rect x="{x}" y="4" width="12" height="12" fill="{_color(peer)}"/>')
        parts.append(_text(x + 17, 14, peer))
        x += 40 + 7 * len(peer)
    for place, panel in enumerate(panels):
        left, top = place % 2 * (_PANEL_WIDTH + 20), 24 + place // 2 * _PANEL_HEIGHT
        parts.append(f'<g transform="translate({left} {top})">{"".join(_panel(panel))}</g>')
    return _svg(24 + (len(panels) + 1) // 2 * _PANEL_HEIGHT, parts)


def _panel(panel: Panel) -> Iterator[str]:
    points = [point for series in panel.series.values() for point in series]
    sizes = sorted({size for size, _ in points})
    across = _Scale(min(sizes), max(sizes), _LEFT, _PANEL_WIDTH - _RIGHT)
    low, high = _decades([value for _, value in points])
    up = _Scale(low, high, _PANEL_HEIGHT - _BOTTOM, _TOP)
    yield _text(0, 16, panel.title, "title")
    for exponent in range(round(log10(low)), round(log10(high)) + 1):
        y = up.at(10.0**exponent)
        yield f'<path class="line" d="M{_LEFT} {y:.1f}H{_PANEL_WIDTH - _RIGHT}"/>'
        yield _text(_LEFT - 6, y + 4, format_short(10.0**exponent), anchor="end")
    for size in sizes:
        yield _text(across.at(size), _PANEL_HEIGHT - 10, format_short(size), anchor="middle")
    for peer, series in panel.series.items():
        places = [(across.at(size), up.at(value)) for size, value in series]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        yield f'<path d="M{path}" fill="none" stroke="{_color(peer)}" stroke-width="2"/>'
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_color(peer)}"/>'


@dataclass(frozen=True, slots=True)
class _Scale:
    """Logarithmic scale from values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        if self.low == self.high:
            return (self.start + self.end) / 2
        return self.start + (self.end - self.start) * log10(value / self.low) / log10(self.high / self.low)


def format_short(value: float) -> str:
    """Abbreviate a round number: 100k, 0.1."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten that enclose all values, at least one decade apart."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _color(peer: str) -> str:
    return COLORS.get(peer, OTHER)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'


def _svg(height: int, parts: Sequence[str]) -> str:
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    )
    return "\n".join([opening, _STYLE, *parts, "</svg>\n"])
