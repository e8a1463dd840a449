"""Scanning a log: finding positions and reading pages."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import MAX_BYTES
from chalicelib.domain.log.commit import Commit, next_commit, verify_contiguous_backwards
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.size_limit import MAX_PAGE_BYTES
from chalicelib.services.reading.scan import (
    SCAN_TIMEOUT_S,
    PageSpec,
    collect_page_backwards,
    find_position,
    scan,
)
from tests.builders import a_commit, a_text, an_append
from tests.services.fakes import large_text

LAMBDA_BYTES = 6 * 1024 * 1024
ALL = Selection()
NOTHING = Selection(types=())
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=40)


@dataclass
class ListLog:
    """The part of a log that `find_position` needs. Counts its reads."""

    commits: list[Commit]
    deleted: int = 0
    """Number of deleted commits at the start."""
    reads: int = 0

    def commit(self, server: int, session: int) -> Commit | None:
        assert server == 1
        self.reads += 1
        return self.commits[session - 1] if self.deleted < session <= len(self.commits) else None


def build_commits(steps: list[tuple[int, int]]) -> list[Commit]:
    """Build commits at increasing times, some of them with several events."""
    head, commits, now_ms = Head(1), [], 0
    for later_ms, event_count in steps:
        now_ms += later_ms
        commits.append(next_commit(head, an_append((a_text(),) * event_count), now_ms))
        head = commits[-1].head
    return commits


def find_linearly(commits: list[Commit], event_id: int) -> Head:
    """The last commit without an event after `event_id`, by linear search."""
    return next((commit.head for commit in reversed(commits) if commit.last_event_id <= event_id), Head(1))


@given(STEPS, st.data())
def test_find_position_equals_linear_search(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    commits = build_commits(steps)
    head = commits[-1].head if commits else Head(1)
    event_id = data.draw(st.integers(0, head.last_event_id + 2))
    log = ListLog(commits)
    assert find_position(log, head, event_id) == find_linearly(commits, event_id)  # type: ignore[arg-type]


def test_find_position_far_back_needs_few_reads() -> None:
    commits = build_commits([(1, 1)] * 10_000)
    log = ListLog(commits)
    find_position(log, commits[-1].head, commits[5].last_event_id)  # type: ignore[arg-type]
    assert log.reads <= 30


def test_find_position_near_head_needs_one_read() -> None:
    commits = build_commits([(1, 1)] * 10_000)
    log = ListLog(commits)
    find_position(log, commits[-1].head, commits[-2].last_event_id)  # type: ignore[arg-type]
    assert log.reads == 1


@pytest.mark.parametrize("deleted", range(1, 9))
@pytest.mark.parametrize("event_id", range(9))
def test_find_position_in_deleted_part_returns_its_end(deleted: int, event_id: int) -> None:
    commits = build_commits([(1, 1)] * 9)
    last = commits[deleted - 1].last_event_id
    log = ListLog(commits, deleted)
    position = find_position(log, commits[-1].head, commits[event_id].last_event_id)  # type: ignore[arg-type]
    assert (position.session, position.last_event_id) == max(
        (deleted, last), (event_id + 1, commits[event_id].last_event_id)
    )


def test_scan_page_fits_into_lambda_response(log: SqliteLog) -> None:
    append_large_commits(log, "x")
    page = scan(log, Head(1), 0, ALL, None)
    assert MAX_PAGE_BYTES < size_bytes(page.texts) < LAMBDA_BYTES
    assert not page.is_complete


def test_scan_page_with_wide_characters_fits_into_lambda(log: SqliteLog) -> None:
    append_large_commits(log, "漢")
    assert size_bytes(scan(log, Head(1), 0, ALL, None).texts) < LAMBDA_BYTES


def test_backwards_page_fits_into_lambda_response(log: SqliteLog) -> None:
    append_large_commits(log, "x")
    assert (
        size_bytes(collect_page_backwards(commits_backwards(log), log.head(1), 0, PageSpec(ALL, -1_000_000)).texts)
        < LAMBDA_BYTES
    )


def test_scan_pages_have_no_gap(log: SqliteLog) -> None:
    append_large_commits(log, "x")
    sessions, position = [], Head(1)
    while True:
        page = scan(log, position, 0, ALL, None)
        sessions += [json.loads(text)["id"]["session"] for text in page.texts]
        position = page.scanned_to
        if page.is_complete:
            break
    assert sessions == list(range(1, log.head(1).session + 1))


def test_scan_ends_after_timeout(log: SqliteLog) -> None:
    log.append([a_commit(session) for session in range(1, 6)])
    times: Iterator[float] = iter([0.0, 1.0, SCAN_TIMEOUT_S, SCAN_TIMEOUT_S + 1])
    page = scan(log, Head(1), 0, NOTHING, None, monotonic=lambda: next(times))
    assert (page.scanned_to, page.event_id, page.texts, page.is_complete) == (a_commit(3).head, 3_000, [], False)


def test_scan_of_log_with_gap_raises_log_broken(log: SqliteLog) -> None:
    log.append([a_commit(1), a_commit(3)])
    with pytest.raises(LogBroken, match="session 3 of server 1"):
        scan(log, Head(1), 0, ALL, None)


def test_backwards_page_of_log_with_gap_raises_log_broken(log: SqliteLog) -> None:
    log.append([a_commit(1), a_commit(3)])
    with pytest.raises(LogBroken):
        collect_page_backwards(commits_backwards(log), log.head(1), 0, PageSpec(ALL, -10))


def commits_backwards(log: SqliteLog) -> Iterator[Commit]:
    return verify_contiguous_backwards(log.read_backwards(1, log.head(1).session + 1))


def size_bytes(texts: list[str]) -> int:
    return sum(len(text.encode()) + 1 for text in texts)


def append_large_commits(log: SqliteLog, character: str) -> None:
    """Append more than eight megabytes in commits of the maximum size."""
    head, commits = Head(1), []
    request = an_append((large_text(MAX_BYTES - 200, character),))
    for _ in range(40):
        commits.append(next_commit(head, request, 0))
        head = commits[-1].head
    log.append(commits)
