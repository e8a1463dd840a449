"""Reports: which there are, on every store."""

from collections.abc import Callable

import pytest

from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import Append, encoded
from chalicelib.services.exports.report_events import report_ready
from chalicelib.services.exports.report_list import MOST, Report, Reports
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.services.worlds import NOW, World

LINK = "https://reports.example/1.html"


@pytest.fixture(params=["sqlite", "moto"])
def present(request: pytest.FixtureRequest) -> LogReader:
    log: Log = request.getfixturevalue(f"{request.param}_log")
    views: Views = request.getfixturevalue(f"{request.param}_views")
    return LogReader(log, views)


@pytest.fixture
def reports(present: LogReader, world: World) -> Reports:
    return Reports(present, Retention(present.log, world.clock))


@pytest.fixture
def write(present: LogReader, world: World) -> Callable[..., None]:
    """Append events in one commit, a second after those before."""
    appender = world.appender(present.log)

    def written(*events: NewEvent) -> None:
        appender.append(Append(1, encoded(events), f"r{world.now_ms}"))
        world.now_ms += 1_000

    return written


def test_without_an_event_there_is_no_report(reports: Reports) -> None:
    assert reports.latest(1) == []
    with pytest.raises(NotFound, match="there is no report 'report'"):
        reports.checked(1, "report")


def test_the_newest_is_first_and_names_its_place_on_the_web(reports: Reports, write: Callable[..., None]) -> None:
    write(report_ready("report", {"link": LINK}), NewEvent(type=("noise",)), report_ready("costs", {"link": ""}))
    write(report_ready("report", {"link": "file:///data/report-1.html"}))
    assert reports.latest(1) == [
        Report("report", NOW + 1_000_000, NOW + 1_000_000, None),
        Report("costs", NOW, NOW + 2, None),
        Report("report", NOW, NOW, LINK),
    ]
    assert [one.event_id for one in reports.latest(1, "report")] == [NOW + 1_000_000, NOW]
    assert reports.checked(1, "costs") == "costs"


@pytest.mark.parametrize("link", ["javascript:alert(1)", "data:text/html,x", "//evil.example", " https://x", 5, None])
def test_a_link_that_leads_nowhere_on_the_web_is_none(
    link: object, reports: Reports, write: Callable[..., None]
) -> None:
    write(report_ready("report", {"link": link}))
    assert [one.link for one in reports.latest(1)] == [None]


@pytest.mark.parametrize("name", ["../report", "report.html", "-", "", "x" * 64, "a b", "reportß"])
def test_a_name_that_no_page_has_is_none_of_ours(name: str, reports: Reports, write: Callable[..., None]) -> None:
    if name and "/" not in name:
        write(report_ready(name, {}))
    assert reports.latest(1) == []
    with pytest.raises(NotFound):
        reports.checked(1, name)


@pytest.mark.parametrize("event_type", [("report", "ready"), ("report", "ready", "a", "b"), ("report", "failed", "a")])
def test_other_events_are_no_reports(event_type: tuple[str, ...], reports: Reports, write: Callable[..., None]) -> None:
    write(NewEvent(type=event_type))
    assert reports.latest(1) == []


def test_what_is_past_retention_is_not_listed(present: LogReader, world: World, write: Callable[..., None]) -> None:
    write(report_ready("report", {}), report_ready("report", {}))
    write(report_ready("report", {}))
    kept = Reports(present, Retention(present.log, world.clock, events=2))
    assert [one.event_id for one in kept.latest(1)] == [NOW + 1_000_000, NOW + 1]


def test_the_list_is_not_longer_than_anybody_reads(reports: Reports, write: Callable[..., None]) -> None:
    write(*(report_ready("report", {}) for _ in range(MOST + 1)))
    assert [one.event_id for one in reports.latest(1)] == [NOW + MOST - n for n in range(MOST)]
