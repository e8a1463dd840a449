"""Reading: finding a position, going through a log page by page."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import MOST_BYTES
from chalicelib.domain.log.commit import Commit, chained_back, next_commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.reading.scan import PAGE_BYTES, SCAN_S, Wanted, collected_back, scan, session_at
from tests.builders import a_commit, a_text, an_append
from tests.services.worlds import large_text

LAMBDA_BYTES = 6 * 1024 * 1024
ALL = Selection()
NOTHING = Selection(types=())
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=40)


@dataclass
class Listed:
    """As much of a log as finding a position needs, and how often it was asked."""

    commits: list[Commit]
    forgotten: int = 0
    """So many of the first are gone."""
    asked: int = 0

    def commit(self, server: int, session: int) -> Commit | None:
        assert server == 1
        self.asked += 1
        return self.commits[session - 1] if self.forgotten < session <= len(self.commits) else None


def built(steps: list[tuple[int, int]]) -> list[Commit]:
    """Commits at rising times, some of them with several events."""
    head, commits, now_ms = Head(1), [], 0
    for later_ms, events in steps:
        now_ms += later_ms
        commits.append(next_commit(head, an_append((a_text(),) * events), now_ms))
        head = commits[-1].head
    return commits


def found_in_line(commits: list[Commit], event_id: int) -> Head:
    """The last commit with nothing after `event_id`, looked for one by one."""
    return next((commit.head for commit in reversed(commits) if commit.last <= event_id), Head(1))


@given(STEPS, st.data())
def test_a_position_is_found_as_by_looking_at_every_commit(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    commits = built(steps)
    head = commits[-1].head if commits else Head(1)
    event_id = data.draw(st.integers(0, head.last + 2))
    log = Listed(commits)
    assert session_at(log, head, event_id) == found_in_line(commits, event_id)  # type: ignore[arg-type]


def test_a_position_far_back_is_found_in_few_steps() -> None:
    commits = built([(1, 1)] * 10_000)
    log = Listed(commits)
    session_at(log, commits[-1].head, commits[5].last)  # type: ignore[arg-type]
    assert log.asked <= 30


def test_a_position_near_the_head_is_found_at_once() -> None:
    commits = built([(1, 1)] * 10_000)
    log = Listed(commits)
    session_at(log, commits[-1].head, commits[-2].last)  # type: ignore[arg-type]
    assert log.asked == 1


@pytest.mark.parametrize("forgotten", range(1, 9))
@pytest.mark.parametrize("event_id", range(9))
def test_what_is_forgotten_lies_before_everything(forgotten: int, event_id: int) -> None:
    commits = built([(1, 1)] * 9)
    last = commits[forgotten - 1].last
    log = Listed(commits, forgotten)
    found = session_at(log, commits[-1].head, commits[event_id].last)  # type: ignore[arg-type]
    assert (found.session, found.last) == max((forgotten, last), (event_id + 1, commits[event_id].last))


def test_a_page_ends_below_what_lambda_may_answer(log: SqliteLog) -> None:
    store_large(log, "x")
    page = scan(log, Head(1), 0, ALL, None)
    assert PAGE_BYTES < size(page.wires) < LAMBDA_BYTES
    assert not page.complete


def test_a_page_ends_below_what_lambda_may_answer_in_any_script(log: SqliteLog) -> None:
    store_large(log, "漢")
    assert size(scan(log, Head(1), 0, ALL, None).wires) < LAMBDA_BYTES


def test_a_page_of_the_newest_ends_below_what_lambda_may_answer_too(log: SqliteLog) -> None:
    store_large(log, "x")
    assert size(collected_back(back(log), log.head(1), 0, Wanted(ALL, -1_000_000)).wires) < LAMBDA_BYTES


def test_pages_follow_each_other_without_a_gap(log: SqliteLog) -> None:
    store_large(log, "x")
    found, seen = [], Head(1)
    while True:
        page = scan(log, seen, 0, ALL, None)
        found += [json.loads(wire)["id"]["session"] for wire in page.wires]
        seen = page.seen
        if page.complete:
            break
    assert found == list(range(1, log.head(1).session + 1))


def test_a_search_that_takes_too_long_ends_where_it_is(log: SqliteLog) -> None:
    log.append([a_commit(session) for session in range(1, 6)], [], 0)
    times: Iterator[float] = iter([0.0, 1.0, SCAN_S, SCAN_S + 1])
    page = scan(log, Head(1), 0, NOTHING, None, monotonic=lambda: next(times))
    assert (page.seen, page.event_id, page.wires, page.complete) == (a_commit(3).head, 3_000, [], False)


def test_a_log_that_contradicts_itself_is_not_read_on(log: SqliteLog) -> None:
    log.append([a_commit(1), a_commit(3)], [], 0)
    with pytest.raises(LogBroken, match="session 3 of server 1"):
        scan(log, Head(1), 0, ALL, None)


def test_a_log_that_contradicts_itself_is_not_read_back(log: SqliteLog) -> None:
    log.append([a_commit(1), a_commit(3)], [], 0)
    with pytest.raises(LogBroken):
        collected_back(back(log), log.head(1), 0, Wanted(ALL, -10))


def back(log: SqliteLog) -> Iterator[Commit]:
    return chained_back(log.read_back(1, log.head(1).session + 1))


def size(wires: list[str]) -> int:
    return sum(len(wire.encode()) + 1 for wire in wires)


def store_large(log: SqliteLog, character: str) -> None:
    """Eight megabytes and more in commits of the largest size."""
    head, commits = Head(1), []
    request = an_append((large_text(MOST_BYTES - 200, character),))
    for _ in range(40):
        commits.append(next_commit(head, request, 0))
        head = commits[-1].head
    log.append(commits, [], 0)
