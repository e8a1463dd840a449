"""The charts of a page: their data, titles and one-sentence summaries."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Final

from markupsafe import Markup

from glue_jobs.page import formatting
from glue_jobs.page.charts import charts
from glue_jobs.page.charts.charts import NARROW, WIDE, Series
from glue_jobs.page.charts.svg import Drawing
from glue_jobs.page.elements import Chart
from glue_jobs.page.metrics import VOCABULARIES, Metrics
from glue_jobs.page.percentiles import Summary
from glue_jobs.page.runs import Kind, Results, Runs

MAX_ROWS: Final = 12
"""Number of rows in a chart."""

_HOURS: Final = {hour: f"{hour:02}" for hour in range(0, 24, 3)}
_PERCENTILES: Final = "Circle: p50; diamond: p90; line: p99."


def throughput(metrics: Metrics) -> Chart:
    """Events per day by vocabulary."""
    days, by_day = metrics.period.days, metrics.throughput.by_day
    series = [Series(name, f"{name} events", [by_day[day, name] for day in days]) for name in VOCABULARIES]
    series = [one for one in series if any(one.values)]
    per_day = {day: sum(by_day[day, name] for name in VOCABULARIES) for day in days}
    busiest = max(days, key=lambda day: per_day[day])
    note = f"Most were on {formatting.day(busiest)}: {formatting.number(per_day[busiest])}."
    pictures = _wide_and_narrow("throughput", note, lambda width: charts.stacked_days(days, series, width, 250))
    return Chart("Events per day", note, pictures, [(one.colour, one.colour) for one in series])


def calendar(metrics: Metrics) -> Chart:
    """Events per day and hour."""
    days, by_hour = metrics.period.days, metrics.throughput.by_hour
    values = {(hour, days.index(day)): events for (day, hour), events in by_hour.items()}
    tips = {
        (hour, place): f"{formatting.day(days[place])}, {hour:02}:00: {formatting.number(events)} events"
        for (hour, place), events in values.items()
    }
    hours = [f"{hour:02}:00" if hour % 6 == 0 else " " for hour in range(24)]
    (day, hour), most = max(by_hour.items(), key=lambda item: (item[1], item[0]))
    busiest = f"{formatting.day(day)} from {hour:02}:00 to {hour + 1:02}:00: {formatting.number(most)}"
    note = f"Darker is more; most were on {busiest}."

    def draw(width: int) -> Drawing:
        every = 3 if width == WIDE else 7
        columns = {place: formatting.day(days[place]) for place in range(len(days) - 1, -1, -every)}
        return charts.heat(hours, columns, values, tips, len(days), width, row_height=9)

    return Chart("Events by hour", note, _wide_and_narrow("calendar", note, draw))


def jobs(metrics: Metrics) -> Iterator[Chart]:
    """Results and durations of jobs."""
    days, runs = metrics.period.days, metrics.jobs
    yield _success(days, runs)
    if runs.seconds.size:
        yield _histogram("durations", "How long jobs take", runs)
        slowest = sorted(runs.by_name, key=lambda one: -(one.taken.p90 or 0))[:MAX_ROWS]
        named = [(one.name, one.taken) for one in slowest if one.taken.count]
        yield _ranges("types", "Slowest types of jobs", named)
    if runs.by_hour:
        yield _nodes(runs)


def jobsets(metrics: Metrics) -> Iterator[Chart]:
    """Results and durations of job sets."""
    runs = metrics.jobsets
    meanings = (("success", "complete", "complete"), ("timeout", "given up", "timeout"), ("open", "not ended", None))
    yield _results("jobsets", "Job sets per day", metrics.period.days, runs, meanings)
    if runs.seconds.size:
        yield _histogram("set-durations", "How long job sets take", runs)


def orders(metrics: Metrics) -> Iterator[Chart]:
    """Results of orders, and times per node."""
    meanings = (
        ("success", "succeeded", "success"),
        ("failure", "ended in error", "failure"),
        ("open", "not ended", None),
    )
    if metrics.orders.total.runs:
        yield _results("orders", "Orders per day", metrics.period.days, metrics.orders, meanings)
    slowest = sorted(metrics.chain_nodes, key=lambda one: -(one.taken.p90 or 0))[:MAX_ROWS]
    named = [(f"{_end(one.chain)} · {formatting.name(one.node)}", one.taken) for one in slowest if one.taken.count]
    if named:
        yield _ranges("chain-nodes", "Time per node of a chain", named)


def pushes(metrics: Metrics) -> Iterator[Chart]:
    """Results of push jobs, and availability of nodes."""
    meanings = (
        ("success", "complete", "complete"), ("failure", "no quorum", "quorum_failed"),
        ("timeout", "timed out", "timed_out"), ("push", "crashed", "crashed"), ("jobset", "aborted", "aborted"),
        ("open", "not ended", None),
    )  # fmt: skip
    if metrics.pushes.total.runs:
        yield _results("pushes", "Push jobs per day", metrics.period.days, metrics.pushes, meanings)
    voting = [one for one in metrics.push_nodes if one.counts["votes"]]
    if voting:
        worst = voting[:MAX_ROWS]
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
        note = (
            f"Least available: {formatting.shorten(worst[0].node)}, {formatting.share(worst[0].availability)}."
            + _shown_note(len(voting))
        )
        drawing = charts.shares([one.node for one in worst], parts, tips)
        legend = [("success", "willing"), ("timeout", "unwilling"), ("failure", "unavailable")]
        yield _chart("availability", "Votes of push nodes", note, drawing, legend)


def _success(days: Sequence[date], runs: Runs) -> Chart:
    results = [runs.by_day.get(day, Results()) for day in days]
    rates = [_rate(one, runs.total.kind) for one in results]
    rated_days = [(rate, day) for rate, day in zip(rates, days, strict=True) if rate is not None]
    note = "None has ended."
    if rated_days:
        worst, day = min(rated_days)
        note = f"The lowest rate was on {formatting.day(day)}: {formatting.share(worst)}."
    meanings = (
        ("success", "succeeded", "success"),
        ("failure", "failed", "failure"),
        ("timeout", "timeouts", "timeout"),
        ("open", "not ended", None),
    )
    series = _series(results, meanings)
    drawing = charts.success_days(days, rates, series)
    return _chart("success", "Success rate per day", note, drawing, [(one.colour, one.title) for one in series])


def _nodes(runs: Runs) -> Chart:
    nodes = sorted(one.name or "" for one in runs.by_node[:MAX_ROWS])
    values, tips = {}, {}
    for (node, hour), number in runs.by_hour.items():
        if (node or "") in nodes:
            place = nodes.index(node or ""), hour
            values[place] = number
            tips[place] = f"{formatting.name(node)}, {hour:02}:00: {formatting.number(number)} runs"
    (node, hour), most = max(runs.by_hour.items(), key=lambda item: (item[1], item[0][1], item[0][0] or ""))
    note = (
        "Runs started, by hour of the day (UTC); darker is more. "
        f"Most: {formatting.shorten(node)} from {hour:02}:00 to {hour + 1:02}:00, {formatting.number(most)}."
        + _shown_note(len(runs.by_node))
    )
    return _chart("nodes", "Nodes by hour", note, charts.heat(nodes, _HOURS, values, tips, 24))


def _histogram(name: str, title: str, runs: Runs) -> Chart:
    taken = runs.total.taken
    note = (
        f"Half took at most {formatting.duration(taken.p50)}, nine of ten at most {formatting.duration(taken.p90)}, "
        f"99 of 100 at most {formatting.duration(taken.p99)}."
    )
    at_once = int((runs.seconds < charts.MIN_DURATION_S).sum())
    if at_once:
        note += f" {formatting.number(at_once)} took no time (the first bar): they started and ended at once."
    return _chart(name, title, note, charts.histogram(runs.seconds, taken))


def _ranges(name: str, title: str, named: Sequence[tuple[object, Summary]]) -> Chart:
    slowest, taken = named[0]
    note = f"Slowest: {formatting.shorten(slowest)}, p90 {formatting.duration(taken.p90)}. {_PERCENTILES}"
    return _chart(name, title, note, charts.ranges([one for one, _ in named], [one for _, one in named]))


def _results(
    name: str, title: str, days: Sequence[date], runs: Runs, meanings: Sequence[tuple[str, str, str | None]]
) -> Chart:
    series = _series([runs.by_day.get(day, Results()) for day in days], meanings)
    counts = ", ".join(f"{formatting.number(sum(one.values))} {one.title}" for one in series)
    legend = [(one.colour, one.title) for one in series]
    return _chart(name, title, f"{counts[:1].upper()}{counts[1:]}.", charts.stacked_days(days, series), legend)


def _series(results: Sequence[Results], meanings: Sequence[tuple[str, str, str | None]]) -> list[Series]:
    """A series per result with a meaning, and one for all others."""
    series = [Series(colour, title, [one[result] for one in results]) for colour, title, result in meanings]
    known = {result for _, _, result in meanings}
    others = [sum(number for result, number in one.items() if result not in known) for one in results]
    series.append(Series("other", "ended otherwise", others))
    return [one for one in series if any(one.values)]


def _rate(results: Results, kind: Kind) -> float | None:
    ended = results.total() - results[None]
    return results[kind.success] / ended if ended else None


def _end(chain: str | None) -> str:
    """The last part of a chain's path."""
    return formatting.name(chain).rstrip("/").rpartition("/")[2] or formatting.name(chain)


def _shown_note(number: int) -> str:
    return f" {MAX_ROWS} of {formatting.number(number)} are shown." if number > MAX_ROWS else ""


def _chart(name: str, title: str, note: str, drawing: Drawing, legend: Sequence[tuple[str, str]] = ()) -> Chart:
    return Chart(title, note, [drawing.svg(name, f"{title}. {note}")], legend)


def _wide_and_narrow(name: str, note: str, draw: Callable[[int], Drawing]) -> list[Markup]:
    return [draw(width).svg(f"{name}-{width}", note) for width in (WIDE, NARROW)]
