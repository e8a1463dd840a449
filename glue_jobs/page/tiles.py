"""The key figures at the top of the page, and their changes since the previous period."""

from collections.abc import Callable
from dataclasses import dataclass

from glue_jobs.page import formatting
from glue_jobs.page.elements import Change, Tile
from glue_jobs.page.metrics import KeyMetrics


def tiles(now: KeyMetrics, before: KeyMetrics | None, is_whole: bool) -> list[Tile]:
    """All tiles. Counts are compared only if the history covers the whole previous period."""
    compared = _Comparison(now, before, is_whole)
    kinds = (("jobs", now.jobs), ("sets", now.jobsets), ("push jobs", now.pushes))
    given_up = ", ".join(f"{formatting.number(one.timeouts)} {title}" for title, one in kinds if one.timeouts)
    in_error = f"{formatting.number(now.orders.failures)} in error" if now.orders.failures else ""
    return [
        compared.count("Events", "", lambda one: one.events),
        compared.count("Job runs", _open(now.jobs.results[None]), lambda one: one.jobs.runs),
        compared.rate("Success rate", "of jobs that ended", lambda one: one.jobs.success_rate),
        compared.duration("Median duration", "of finished jobs", lambda one: one.jobs.taken.p50),
        compared.duration("99th percentile", "of finished jobs", lambda one: one.jobs.taken.p99),
        compared.count("Failures", "of jobs", lambda one: one.jobs.failed, "bad"),
        compared.count("Timeouts", given_up, lambda one: one.timeouts, "bad"),
        compared.count("Orders finished", in_error, lambda one: one.orders.ended),
        compared.count("Push jobs", _open(now.pushes.results[None]), lambda one: one.pushes.runs),
        compared.count("Quorum failures", "of push jobs", lambda one: one.pushes.results["quorum_failed"], "bad"),
    ]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares the metrics of two periods."""

    now: KeyMetrics
    before: KeyMetrics | None
    is_whole: bool

    def count(self, title: str, note: str, of: Callable[[KeyMetrics], int], more_is: str = "") -> Tile:
        """A count and its change."""
        now, change = of(self.now), None
        if self.before is not None and self.is_whole:
            before = of(self.before)
            size = formatting.number(abs(now - before)) + _percent(now, before)
            change = _change(now - before, size, formatting.number(before), more_is)
        return Tile(title, formatting.number(now), note, change)

    def rate(self, title: str, note: str, of: Callable[[KeyMetrics], float | None]) -> Tile:
        """A ratio and its change in percentage points."""
        now, before, change = of(self.now), self.before and of(self.before), None
        if isinstance(now, float) and isinstance(before, float):
            points = round((now - before) * 100, 1)
            change = _change(points, f"{abs(points):.1f} points", formatting.share(before), "good")
        return Tile(title, formatting.share(now), note, change)

    def duration(self, title: str, note: str, of: Callable[[KeyMetrics], float | None]) -> Tile:
        """A duration and its change."""
        now, before, change = of(self.now), self.before and of(self.before), None
        if isinstance(now, float) and isinstance(before, float):
            size = formatting.duration(abs(now - before)) + _percent(now, before)
            change = _change(now - before, size, formatting.duration(before), "bad")
        return Tile(title, formatting.duration(now), note, change)


def _open(number: int) -> str:
    return f"{formatting.number(number)} not ended" if number else ""


def _change(difference: float, size: str, before: str, more_is: str) -> Change:
    if not difference:
        return Change("=", "the same", before)
    moods = {"": ("", ""), "good": ("good", "bad"), "bad": ("bad", "good")}[more_is]
    return Change("▲" if difference > 0 else "▼", size, before, moods[difference < 0])


def _percent(now: float, before: float) -> str:
    """The change in percent of the previous value, if that is not 0."""
    if before <= 0:
        return ""
    percent = abs(now - before) / before * 100
    return f" ({percent:,.0f} %)" if percent >= 9.95 else f" ({percent:.1f} %)"
