"""The charts of a page: which figures they show, what they are called, and what they say in words."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Final

from markupsafe import Markup

from glue_jobs.page import formatting
from glue_jobs.page.charts import charts
from glue_jobs.page.charts.charts import NARROW, WIDE, Series
from glue_jobs.page.charts.svg import Drawing
from glue_jobs.page.elements import Chart
from glue_jobs.page.metrics import VOCABULARIES, Figures
from glue_jobs.page.percentiles import Summary
from glue_jobs.page.runs import Kind, Results, Runs

SHOWN: Final = 12
"""So many rows are in a chart."""

_HOURS: Final = {hour: f"{hour:02}" for hour in range(0, 24, 3)}
_PERCENTILES: Final = "Circle: half take at most so long (p50); diamond: p90; line: p99."


def throughput(figures: Figures) -> Chart:
    """Events of each day by vocabulary."""
    days, by_day = figures.period.days, figures.throughput.by_day
    series = [Series(name, f"{name} events", [by_day[day, name] for day in days]) for name in VOCABULARIES]
    series = [one for one in series if any(one.values)]
    per_day = {day: sum(by_day[day, name] for name in VOCABULARIES) for day in days}
    busiest = max(days, key=lambda day: per_day[day])
    note = f"Most were on {formatting.day(busiest)}: {formatting.number(per_day[busiest])}."
    pictures = _both("throughput", note, lambda width: charts.stacked_days(days, series, width, 250))
    return Chart("Events per day", note, pictures, [(one.colour, one.colour) for one in series])


def calendar(figures: Figures) -> Chart:
    """Events of each hour of each day."""
    days, by_hour = figures.period.days, figures.throughput.by_hour
    values = {(hour, days.index(day)): events for (day, hour), events in by_hour.items()}
    tips = {
        (hour, place): f"{formatting.day(days[place])}, {hour:02}:00: {formatting.number(events)} events"
        for (hour, place), events in values.items()
    }
    hours = [f"{hour:02}:00" if hour % 6 == 0 else " " for hour in range(24)]
    (day, hour), most = max(by_hour.items(), key=lambda item: (item[1], item[0]))
    busiest = f"{formatting.day(day)} from {hour:02}:00 to {hour + 1:02}:00: {formatting.number(most)}"
    note = f"Darker is more; most were on {busiest}."

    def drawn(width: int) -> Drawing:
        every = 3 if width == WIDE else 7
        columns = {place: formatting.day(days[place]) for place in range(len(days) - 1, -1, -every)}
        return charts.heat(hours, columns, values, tips, len(days), width, row_height=9)

    return Chart("Events by hour", note, _both("calendar", note, drawn))


def jobs(figures: Figures) -> Iterator[Chart]:
    """How jobs end and how long they take."""
    days, runs = figures.period.days, figures.jobs
    yield _success(days, runs)
    if runs.seconds.size:
        yield _histogram("durations", "How long jobs take", runs)
        slowest = sorted(runs.by_name, key=lambda one: -(one.taken.p90 or 0))[:SHOWN]
        named = [(one.name, one.taken) for one in slowest if one.taken.count]
        yield _ranges("types", "Slowest types of jobs", named)
    if runs.by_hour:
        yield _nodes(runs)


def jobsets(figures: Figures) -> Iterator[Chart]:
    """Sets of each day, and how long they take."""
    runs = figures.jobsets
    meanings = (("success", "complete", "complete"), ("timeout", "given up", "timeout"), ("open", "not ended", None))
    yield _results("jobsets", "Job sets per day", figures.period.days, runs, meanings)
    if runs.seconds.size:
        yield _histogram("set-durations", "How long job sets take", runs)


def orders(figures: Figures) -> Iterator[Chart]:
    """How orders end, and where they spend their time."""
    meanings = (
        ("success", "succeeded", "success"),
        ("failure", "ended in error", "failure"),
        ("open", "not ended", None),
    )
    if figures.orders.total.runs:
        yield _results("orders", "Orders per day", figures.period.days, figures.orders, meanings)
    slowest = sorted(figures.chain_nodes, key=lambda one: -(one.taken.p90 or 0))[:SHOWN]
    named = [(f"{_end(one.chain)} · {formatting.name(one.node)}", one.taken) for one in slowest if one.taken.count]
    if named:
        yield _ranges("chain-nodes", "Time per node of a chain", named)


def pushes(figures: Figures) -> Iterator[Chart]:
    """How push jobs end, and which nodes are there."""
    meanings = (
        ("success", "complete", "complete"), ("failure", "no quorum", "quorum_failed"),
        ("timeout", "timed out", "timed_out"), ("push", "crashed", "crashed"), ("jobset", "aborted", "aborted"),
        ("open", "not ended", None),
    )  # fmt: skip
    if figures.pushes.total.runs:
        yield _results("pushes", "Push jobs per day", figures.period.days, figures.pushes, meanings)
    voting = [one for one in figures.push_nodes if one.counts["votes"]]
    if voting:
        worst = voting[:SHOWN]
        parts = [
            (colour, [one.counts[name] / one.counts["votes"] for one in worst])
            for colour, name in (("success", "willing"), ("timeout", "unwilling"), ("failure", "unavailable"))
        ]
        tips = [
            f"{formatting.name(one.node)}, {formatting.number(one.counts['votes'])} votes: "
            + ", ".join(
                f"{formatting.number(one.counts[name])} {name}" for name in ("willing", "unwilling", "unavailable")
            )
            for one in worst
        ]
        note = f"Least available: {formatting.cut(worst[0].node)}, {formatting.share(worst[0].availability)}." + _of(
            len(voting)
        )
        drawing = charts.shares([one.node for one in worst], parts, tips)
        legend = [("success", "willing"), ("timeout", "unwilling"), ("failure", "unavailable")]
        yield _one("availability", "Votes of push nodes", note, drawing, legend)


def _success(days: Sequence[date], runs: Runs) -> Chart:
    results = [runs.by_day.get(day, Results()) for day in days]
    rates = [_rate(one, runs.total.kind) for one in results]
    known = [(rate, day) for rate, day in zip(rates, days, strict=True) if rate is not None]
    note = "None of them has ended."
    if known:
        worst, day = min(known)
        note = f"The lowest rate was on {formatting.day(day)}: {formatting.share(worst)}."
    meanings = (
        ("success", "succeeded", "success"),
        ("failure", "failed", "failure"),
        ("timeout", "timeouts", "timeout"),
        ("open", "not ended", None),
    )
    series = _series(results, meanings)
    drawing = charts.success_days(days, rates, series)
    return _one("success", "Success rate per day", note, drawing, [(one.colour, one.title) for one in series])


def _nodes(runs: Runs) -> Chart:
    nodes = sorted(one.name or "" for one in runs.by_node[:SHOWN])
    values, tips = {}, {}
    for (node, hour), number in runs.by_hour.items():
        if (node or "") in nodes:
            place = nodes.index(node or ""), hour
            values[place] = number
            tips[place] = f"{formatting.name(node)}, {hour:02}:00: {formatting.number(number)} runs"
    (node, hour), most = max(runs.by_hour.items(), key=lambda item: (item[1], item[0][1], item[0][0] or ""))
    note = (
        f"Runs that began, by hour of the day (UTC); darker is more. Most: {formatting.cut(node)} from {hour:02}:00 to "
        f"{hour + 1:02}:00, {formatting.number(most)}." + _of(len(runs.by_node))
    )
    return _one("nodes", "Nodes by hour", note, charts.heat(nodes, _HOURS, values, tips, 24))


def _histogram(name: str, title: str, runs: Runs) -> Chart:
    taken = runs.total.taken
    note = (
        f"Half took at most {formatting.duration(taken.p50)}, nine of ten at most {formatting.duration(taken.p90)}, "
        f"99 of 100 at most {formatting.duration(taken.p99)}."
    )
    at_once = int((runs.seconds < charts.SHORTEST).sum())
    if at_once:
        note += f" {formatting.number(at_once)} took no time (the first bar): they began and ended at once."
    return _one(name, title, note, charts.histogram(runs.seconds, taken))


def _ranges(name: str, title: str, named: Sequence[tuple[object, Summary]]) -> Chart:
    slowest, taken = named[0]
    note = f"Slowest: {formatting.cut(slowest)}, p90 {formatting.duration(taken.p90)}. {_PERCENTILES}"
    return _one(name, title, note, charts.ranges([one for one, _ in named], [one for _, one in named]))


def _results(
    name: str, title: str, days: Sequence[date], runs: Runs, meanings: Sequence[tuple[str, str, str | None]]
) -> Chart:
    series = _series([runs.by_day.get(day, Results()) for day in days], meanings)
    told = ", ".join(f"{formatting.number(sum(one.values))} {one.title}" for one in series)
    legend = [(one.colour, one.title) for one in series]
    return _one(name, title, f"{told[:1].upper()}{told[1:]}.", charts.stacked_days(days, series), legend)


def _series(results: Sequence[Results], meanings: Sequence[tuple[str, str, str | None]]) -> list[Series]:
    """How many ended in each of the ways that have a meaning, and in others."""
    found = [Series(colour, title, [one[result] for one in results]) for colour, title, result in meanings]
    known = {result for _, _, result in meanings}
    others = [sum(number for result, number in one.items() if result not in known) for one in results]
    found.append(Series("other", "ended otherwise", others))
    return [one for one in found if any(one.values)]


def _rate(results: Results, kind: Kind) -> float | None:
    ended = results.total() - results[None]
    return results[kind.success] / ended if ended else None


def _end(chain: str | None) -> str:
    """The last part of a chain's path, which is what it is called."""
    return formatting.name(chain).rstrip("/").rpartition("/")[2] or formatting.name(chain)


def _of(number: int) -> str:
    return f" {SHOWN} of {formatting.number(number)} are shown." if number > SHOWN else ""


def _one(name: str, title: str, note: str, drawing: Drawing, legend: Sequence[tuple[str, str]] = ()) -> Chart:
    return Chart(title, note, [drawing.svg(name, f"{title}. {note}")], legend)


def _both(name: str, note: str, drawn: Callable[[int], Drawing]) -> list[Markup]:
    return [drawn(width).svg(f"{name}-{width}", note) for width in (WIDE, NARROW)]
