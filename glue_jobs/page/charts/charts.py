"""Draws charts from numbers. Knows nothing of tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from glue_jobs.page import formatting
from glue_jobs.page.charts.svg import COLOURS, FONT, Drawing
from glue_jobs.page.percentiles import Numbers, Summary

WIDE, NARROW = 1080, 520

_TIMES: Final = {
    0.001: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h",
    36000: "10 h", 86400: "1 d", 864000: "10 d", 8640000: "100 d",
}  # fmt: skip
"""Ticks of a logarithmic time axis."""
_TIMES_BETWEEN: Final = {
    0.002: "2 ms", 0.005: "5 ms", 0.02: "20 ms", 0.05: "50 ms", 0.2: "0.2 s", 0.5: "0.5 s", 2: "2 s", 5: "5 s",
    30: "30 s", 120: "2 min", 300: "5 min", 1800: "30 min", 7200: "2 h", 18000: "5 h", 172800: "2 d", 432000: "5 d",
}  # fmt: skip
"""Additional ticks of a short axis."""
_BINS_PER_DECADE: Final = 8
MIN_DURATION_S: Final = 0.001
_SHORT_AXIS: Final = 100
"""An axis is short if its end is less than this multiple of its start."""
_ROW: Final = 26
_TITLE: Final = 0.08
"""The share of an axis that a short title takes."""
_LABEL: Final = 18
"""Maximum number of characters of a name beside a row."""


@dataclass(frozen=True, slots=True)
class Series:
    """A series of one colour with a number per day."""

    colour: str
    title: str
    values: Sequence[int]


def stacked_days(days: Sequence[date], series: Sequence[Series], width: int = NARROW, height: int = 230) -> Drawing:
    """Stacked counts per day."""
    drawing = Drawing(width, height)
    _stack(drawing, drawing.axes(52, 10, 6, 28), days, series)
    return drawing


def success_days(
    days: Sequence[date], rates: Sequence[float | None], series: Sequence[Series], width: int = NARROW
) -> Drawing:
    """The success rate per day above, and the counts below."""
    drawing = Drawing(width, 290)
    above = drawing.axes(52, 12, 6, 160)
    values = [math.nan if rate is None else rate * 100 for rate in rates]
    places = range(len(days))
    above.plot(places, values, color=COLOURS["accent"], linewidth=2, solid_capstyle="round", clip_on=False)
    for place, rate in enumerate(rates):
        if rate is not None:
            tip = drawing.tip(f"{formatting.day(days[place])}: {formatting.share(rate)} succeeded")
            above.plot([place], [rate * 100], "o", color=COLOURS["accent"], markersize=5, clip_on=False, gid=tip)
    low = min((rate * 100 for rate in rates if rate is not None), default=0)
    above.set_xlim(-0.6, len(days) - 0.4)
    lowest = max(0, math.floor((low - 1) / 10) * 10)
    above.set_ylim(lowest, 100)
    above.set_xticks([])
    ticks = (lowest, (lowest + 100) // 2, 100)
    above.set_yticks(ticks, [f"{tick} %" for tick in ticks])
    above.grid(axis="y", color=COLOURS["line"], linewidth=1)
    _stack(drawing, drawing.axes(52, 164, 6, 28), days, series)
    return drawing


def histogram(seconds: Numbers, taken: Summary, width: int = NARROW, height: int = 290) -> Drawing:
    """A histogram of durations. Durations of 0 have a separate bar at the left."""
    drawing = Drawing(width, height)
    axes = drawing.axes(52, 34, 10, 28)
    scale = _TimeScale(seconds)
    counts, _ = np.histogram(scale.places(seconds), scale.edges)
    for count, low, high in zip(counts, scale.edges, scale.edges[1:], strict=False):
        if count:
            tip = drawing.tip(f"{scale.describe(low)} to {formatting.duration(high)}: {formatting.number(count)}")
            gap = (high / low) ** 0.06
            _box(axes, (low * gap, 0, high / gap - low * gap, count), "accent", tip)
    scale.draw(axes)
    axes.set_ylim(0, max(counts) * 1.02)
    _count_axis(axes)
    _percentiles(axes, scale, taken)
    return drawing


def ranges(names: Sequence[object], taken: Sequence[Summary], width: int = NARROW) -> Drawing:
    """A line from the median to the 99th percentile of each name, on a logarithmic axis."""
    drawing = Drawing(width, _ROW * len(names) + 40)
    axes = drawing.axes(160, 4, 18, 36)
    values = np.array([(one.p50, one.p90, one.p99) for one in taken], dtype=np.float64)
    scale = _TimeScale(values.ravel())
    for row, (p50, p90, p99) in enumerate(scale.places(values)):
        text = ", ".join(
            f"p{share} {formatting.duration(value)}" for share, value in zip((50, 90, 99), values[row], strict=True)
        )
        tip = drawing.tip(f"{formatting.name(names[row])}: {text}")
        axes.plot([p50, p99], [row, row], color=COLOURS["accent"], alpha=0.28, linewidth=9, gid=tip, clip_on=False)
        for value, mark, size in ((p50, "o", 8), (p90, "D", 6), (p99, "|", 13)):
            colour = COLOURS["accent"]
            axes.plot([value], [row], mark, color=colour, markersize=size, markeredgewidth=2, clip_on=False)
    scale.draw(axes)
    axes.grid(axis="x", color=COLOURS["line"], linewidth=1)
    _rows(drawing, axes, names)
    return drawing


def heat(
    rows: Sequence[object],
    columns: Mapping[int, str],
    values: Mapping[tuple[int, int], int],
    tips: Mapping[tuple[int, int], str],
    count: int,
    width: int = NARROW,
    row_height: int = _ROW,
) -> Drawing:
    """A heat map. `columns` are the titles below, `values` are by row and column."""
    drawing = Drawing(width, row_height * len(rows) + 36)
    axes = drawing.axes(160 if row_height == _ROW else 52, 4, 6, 32)
    most = max(values.values(), default=0)
    axes.add_artist(Rectangle((0, -0.5), count, len(rows), facecolor=COLOURS["line"], linewidth=0, alpha=0.35))
    gap = 1.5 * count / (width - 160), 1.5 / row_height
    for (row, column), value in sorted(values.items()):
        if value:
            place = column + gap[0] / 2, row - 0.5 + gap[1] / 2, 1 - gap[0], 1 - gap[1]
            _box(axes, place, "accent", drawing.tip(tips[row, column]), round(0.08 + 0.92 * value / most, 2))
    axes.set_xlim(0, count)
    axes.set_xticks([place + 0.5 for place in columns], list(columns.values()))
    _rows(drawing, axes, rows)
    return drawing


def shares(
    names: Sequence[object], parts: Sequence[tuple[str, Sequence[float]]], tips: Sequence[str], width: int = NARROW
) -> Drawing:
    """Bars of equal length, one per name. `parts` are colours with a share for each name."""
    drawing = Drawing(width, _ROW * len(names) + 40)
    axes = drawing.axes(160, 4, 18, 36)
    begin = np.zeros(len(names))
    for colour, values in parts:
        for row, value in enumerate(values):
            if value:
                _box(axes, (begin[row] * 100, row - 0.31, value * 100, 0.62), colour, drawing.tip(tips[row]))
        begin += np.array(values)
    axes.set_xlim(0, 100)
    axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.grid(axis="x", color=COLOURS["line"], linewidth=1)
    _rows(drawing, axes, names)
    return drawing


def _stack(drawing: Drawing, axes: Axes, days: Sequence[date], series: Sequence[Series]) -> None:
    top = np.zeros(len(days), dtype=np.int64)
    for one in series:
        for place, value in enumerate(one.values):
            if value:
                tip = drawing.tip(f"{formatting.day(days[place])}: {formatting.number(value)} {one.title}")
                _box(axes, (place - 0.38, top[place], 0.76, value), one.colour, tip)
        top += np.array(one.values, dtype=np.int64)
    axes.set_xlim(-0.6, len(days) - 0.4)
    axes.set_ylim(0, max(int(max(top)), 1) * 1.04)
    every = 7 if drawing.width < WIDE else 3
    places = list(range(len(days) - 1, -1, -every))
    axes.set_xticks(places, [formatting.day(days[place]) for place in places])
    # The last title would be cut off at the edge.
    axes.get_xticklabels()[0].set_horizontalalignment("right" if drawing.width < WIDE else "center")
    _count_axis(axes)


def _box(axes: Axes, place: tuple[float, float, float, float], colour: str, tip: str, alpha: float = 1) -> None:
    """A rectangle, faster than Matplotlib's bars. `place` is left, bottom, width and height."""
    left, bottom, width, height = place
    axes.add_artist(
        Rectangle((left, bottom), width, height, facecolor=COLOURS[colour], linewidth=0, alpha=alpha, gid=tip)
    ).set_clip_on(False)


def _count_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.short_number(value)))
    axes.grid(axis="y", color=COLOURS["line"], linewidth=1)


def _rows(drawing: Drawing, axes: Axes, names: Sequence[object]) -> None:
    axes.set_yticks(range(len(names)), [drawing.label(name, _LABEL) for name in names])
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    axes.set_ylim(len(names) - 0.5, -0.5)


def _percentiles(axes: Axes, scale: "_TimeScale", taken: Summary) -> None:
    """Lines at the percentiles. Close ones share a title."""
    titles: list[tuple[float, str]] = []
    values = np.array([taken.p50, taken.p90, taken.p99], dtype=np.float64)
    for name, value in zip(("p50", "p90", "p99"), scale.places(values), strict=True):
        axes.axvline(value, color=COLOURS["ink"], linewidth=1, linestyle=(0, (3, 3)))
        if titles and scale.part(value) - scale.part(titles[-1][0]) < _TITLE:
            titles[-1] = titles[-1][0], f"{titles[-1][1]}, {name}"
        else:
            titles.append((value, name))
    for value, title in titles:
        side = "left" if scale.part(value) < _TITLE else "right" if scale.part(value) > 1 - _TITLE else "center"
        axes.text(
            value, 1.02, title, transform=axes.get_xaxis_transform(), ha=side, color=COLOURS["ink"], fontsize=FONT
        )


class _TimeScale:
    """A logarithmic axis for durations. Those below a millisecond are at its left end."""

    def __init__(self, seconds: Numbers) -> None:
        positive = seconds[seconds >= MIN_DURATION_S]
        low, high = (positive.min(), positive.max()) if positive.size else (0.1, 1.0)
        first = math.floor(math.log10(low) * _BINS_PER_DECADE + 1e-9)
        last = math.floor(math.log10(high) * _BINS_PER_DECADE + 1e-9) + 1
        around = max(0, (_BINS_PER_DECADE - (last - first)) // 2)
        first, last = first - around, last + around
        self.has_zero = int((seconds < MIN_DURATION_S).any())
        self.edges: Numbers = 10 ** (np.arange(first - self.has_zero, last + 1) / _BINS_PER_DECADE)

    def places(self, seconds: Numbers) -> Numbers:
        """Positions of durations on the axis."""
        zero = math.sqrt(self.edges[0] * self.edges[1])
        return np.clip(np.where(seconds < MIN_DURATION_S, zero, seconds), self.edges[0], self.edges[-1])

    def part(self, seconds: float) -> float:
        """Relative position, from 0 to 1."""
        return math.log(seconds / self.edges[0]) / math.log(self.edges[-1] / self.edges[0])

    def describe(self, edge: float) -> str:
        """The lower limit of a bar as text."""
        return "0 s" if self.has_zero and edge == self.edges[0] else formatting.duration(edge)

    def draw(self, axes: Axes) -> None:
        """Draw the axis at the bottom."""
        axes.set_xscale("log")
        axes.set_xlim(self.edges[0], self.edges[-1])
        low, high = self.edges[self.has_zero], self.edges[-1]
        titles = {**_TIMES, **_TIMES_BETWEEN} if high / low < _SHORT_AXIS else _TIMES
        shown: dict[float, str] = {time: title for time, title in titles.items() if low <= time <= high}
        if self.has_zero:
            shown[float(self.places(np.zeros(1))[0])] = "0"
        axes.set_xticks(list(shown), list(shown.values()))
        axes.set_xticks([], minor=True)
