"""The log reader: views only speed it up, so its positions and commits are those of the log."""

from collections.abc import Iterator

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.reading.log_reader import SCAN_THRESHOLD, LogReader
from tests.builders import a_commit, a_text

MINUTE_US = 60_000_000
TYPE = Selection(types=(("job", "started"),))
MANY = 3 * SCAN_THRESHOLD
"""More commits than a reader scans without the views."""


class ExpiringLog(SqliteLog):
    """Retention deletes the commits up to `expired` just before the log is read."""

    expired = 0

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        if self.expired:
            self.delete_up_to(server, self.expired)
        return super().read(server, after, limit)


def write_and_project(log: SqliteLog, views: SqliteViews, times_us: list[int], event_counts: list[int]) -> list[Commit]:
    commits: list[Commit] = []
    for at_us, event_count in zip(times_us, event_counts, strict=True):
        session, prev = len(commits) + 1, commits[-1].last_event_id if commits else 0
        before = commits[-1].head.position if commits else 0
        commits.append(a_commit(session, at=at_us, prev=prev, texts=(a_text(),) * event_count, before=before))
    log.append(commits)
    catch_up(projector(views), 1, log, views)
    return commits


def test_commits_after_are_read_once_while_others_expire(database: Database, sqlite_views: SqliteViews) -> None:
    """A read of a block whose first commits are deleted meanwhile must not continue into the next block."""
    log = ExpiringLog(database)
    times_us = [MINUTE_US + n if n <= MANY // 2 else 2 * MINUTE_US + n for n in range(1, MANY + 1)]
    write_and_project(log, sqlite_views, times_us, [1] * MANY)
    log.expired = SCAN_THRESHOLD // 2
    run = LogReader(log, sqlite_views).commits_after(Head(1), TYPE)
    assert [commit.session for commit in run.commits] == list(range(log.expired + 1, MANY + 1))


def test_position_in_commit_across_minutes_is_before_it(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """The EventIds of the second commit begin in one minute and end in the next."""
    times_us = [MINUTE_US - 5, MINUTE_US - 2, *(MINUTE_US + n for n in range(10, 10 + MANY))]
    commits = write_and_project(log, sqlite_views, times_us, [1, 5, *([1] * MANY)])
    assert (commits[1].at_us, commits[1].last_event_id) == (MINUTE_US - 2, MINUTE_US + 2)
    reader = LogReader(log, sqlite_views)
    positions = {event_id: reader.position_at(1, event_id) for event_id in range(MINUTE_US - 6, MINUTE_US + 12)}
    assert positions == {
        event_id: max((commit.head for commit in commits if commit.last_event_id <= event_id), default=Head(1))
        for event_id in positions
    }


def test_commits_before_excludes_later_commits(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """The views know only the first commit. The others are read from the log."""
    first = write_and_project(log, sqlite_views, [MINUTE_US], [1])[0]
    log.append(
        [a_commit(n, at=MINUTE_US + n, prev=first.last_event_id if n == 2 else MINUTE_US + n - 1) for n in (2, 3, 4)]
    )
    start = Head(1, 3, 1, MINUTE_US + 3)
    assert [commit.session for commit in LogReader(log, sqlite_views).commits_before(start, TYPE)] == [3, 2, 1]


def test_event_id_at_position_of_deleted_events(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """The last deleted position is a valid start. Earlier ones are before the retention boundary."""
    commits = write_and_project(log, sqlite_views, [MINUTE_US, 2 * MINUTE_US, 3 * MINUTE_US], [2, 2, 2])
    log.delete_up_to(1, 1)
    reader = LogReader(log, sqlite_views)
    expected = [0, 0, commits[0].last_event_id, *(commit.at_us + i for commit in commits[1:] for i in range(2))]
    assert [reader.event_id_at(1, position) for position in range(7)] == expected
