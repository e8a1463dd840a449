"""The list of reports, on each store."""

from collections.abc import Callable

import pytest

from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.services.exports.report_events import report_ready_event
from chalicelib.services.exports.report_list import MAX_REPORTS, Report, Reports
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.services.fakes import NOW, World

LINK = "https://reports.example/1.html"


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def reader(request: pytest.FixtureRequest) -> LogReader:
    log: Log = request.getfixturevalue(f"{request.param}_log")
    views: Views = request.getfixturevalue(f"{request.param}_views")
    return LogReader(log, views)


@pytest.fixture
def reports(reader: LogReader, world: World) -> Reports:
    return Reports(reader, Retention(reader.log, world.clock))


@pytest.fixture
def write(reader: LogReader, world: World) -> Callable[..., None]:
    """Append events in one commit, a second after the previous one."""
    appender = world.appender(reader.log)

    def append_events(*events: NewEvent) -> None:
        appender.append(Append(1, encode_within_limits(events), f"r{world.now_ms}"))
        world.now_ms += 1_000

    return append_events


def test_reports_without_events_are_empty(reports: Reports) -> None:
    assert reports.latest(1) == []
    with pytest.raises(NotFound, match="there is no report 'report'"):
        reports.existing_name(1, "report")


def test_latest_lists_newest_first_with_links(reports: Reports, write: Callable[..., None]) -> None:
    write(
        report_ready_event("report", {"link": LINK}),
        NewEvent(type=("noise",)),
        report_ready_event("costs", {"link": ""}),
    )
    write(report_ready_event("report", {"link": "file:///data/report-1.html"}))
    assert reports.latest(1) == [
        Report("report", NOW + 1_000_000, NOW + 1_000_000, None),
        Report("costs", NOW, NOW + 2, None),
        Report("report", NOW, NOW, LINK),
    ]
    assert [report.event_id for report in reports.latest(1, "report")] == [NOW + 1_000_000, NOW]
    assert reports.existing_name(1, "costs") == "costs"


@pytest.mark.parametrize("link", ["javascript:alert(1)", "data:text/html,x", "//evil.example", " https://x", 5, None])
def test_latest_ignores_links_other_than_http(link: object, reports: Reports, write: Callable[..., None]) -> None:
    write(report_ready_event("report", {"link": link}))
    assert [report.link for report in reports.latest(1)] == [None]


@pytest.mark.parametrize("name", ["../report", "report.html", "-", "", "x" * 64, "a b", "reportß"])
def test_latest_ignores_invalid_names(name: str, reports: Reports, write: Callable[..., None]) -> None:
    if name and "/" not in name:
        write(report_ready_event(name, {}))
    assert reports.latest(1) == []
    with pytest.raises(NotFound):
        reports.existing_name(1, name)


@pytest.mark.parametrize("event_type", [("report", "ready"), ("report", "ready", "a", "b"), ("report", "failed", "a")])
def test_latest_ignores_other_events(event_type: tuple[str, ...], reports: Reports, write: Callable[..., None]) -> None:
    write(NewEvent(type=event_type))
    assert reports.latest(1) == []


def test_latest_omits_events_beyond_retention(reader: LogReader, world: World, write: Callable[..., None]) -> None:
    write(report_ready_event("report", {}), report_ready_event("report", {}))
    write(report_ready_event("report", {}))
    limited = Reports(reader, Retention(reader.log, world.clock, events=2))
    assert [report.event_id for report in limited.latest(1)] == [NOW + 1_000_000, NOW + 1]


def test_latest_is_limited(reports: Reports, write: Callable[..., None]) -> None:
    write(*(report_ready_event("report", {}) for _ in range(MAX_REPORTS + 1)))
    assert [report.event_id for report in reports.latest(1)] == [NOW + MAX_REPORTS - n for n in range(MAX_REPORTS)]
