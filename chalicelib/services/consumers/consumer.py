"""Consumers: each processes every log in order and remembers its position in checkpoints."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous
from chalicelib.domain.views.record import Checkpoint, checkpoints_view
from chalicelib.services.ports import Clock, Measure, Views

MAX_RUN_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Consumer:
    """A handler of commits and the name of its checkpoints. Delivery is at least once, so `handle` is idempotent."""

    name: str
    handle: Callable[[Checkpoint, Sequence[Commit]], None]


class CommitSource(Protocol):
    """The part of the `Log` port that consumers need."""

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        """Commits with sessions greater than `after`, ascending, at most `limit`."""


class CachedCommitReader:
    """Caches the result of the last read, so that several consumers at the same position read and parse it once."""

    def __init__(self, log: CommitSource) -> None:
        self._log = log
        self._cached_read: tuple[int, int, int | None] | None = None
        self._commits: list[Commit] = []

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        """Implements `CommitSource`. Empty results are not cached."""
        read = server, after, limit
        if read != self._cached_read or not self._commits:
            self._commits, self._cached_read = list(islice(self._log.read(server, after, limit), limit)), read
        return iter(self._commits)


def load_checkpoint(consumer: str, server: int, views: Views) -> Checkpoint:
    """Position of the consumer in the log of `server`."""
    return Checkpoint.from_record(server, views.get(checkpoints_view(server), [consumer]).get(consumer))


def run_once(
    consumer: Consumer,
    server: int,
    log: CommitSource,
    views: Views,
    limit: int = MAX_RUN_COMMITS,
    retention_head: Head | None = None,
) -> int:
    """Handle at most `limit` commits, then advance the checkpoint. Returns the number of commits handled.

    Commits up to `retention_head` are no longer kept and are skipped. Concurrent runs of the same consumer are safe:
    the first one advances the checkpoint, and the store refuses the write of the other.
    """
    return len(_handle_next(consumer, server, log, views, limit, retention_head))


def catch_up(
    consumer: Consumer,
    server: int,
    log: CommitSource,
    views: Views,
    retention_head: Head | None = None,
    on_caught_up: Callable[[Commit], None] | None = None,
    between_runs: Callable[[], None] = lambda: None,
) -> None:
    """Run the consumer until it reaches the end of the log. `on_caught_up` gets the last commit handled, if any.

    A run with fewer commits than its limit counts as the end: a later commit triggers the consumer again. A steady
    writer therefore does not keep it busy with runs of one or two commits.
    """
    commits = _handle_next(consumer, server, log, views, MAX_RUN_COMMITS, retention_head)
    last = commits[-1] if commits else None
    while len(commits) == MAX_RUN_COMMITS:
        between_runs()
        commits = _handle_next(consumer, server, log, views, MAX_RUN_COMMITS, retention_head)
        last = commits[-1] if commits else last
    if last is not None and on_caught_up is not None:
        on_caught_up(last)


def catch_up_together(
    consumers: Sequence[Consumer],
    server: int,
    log: CommitSource,
    views: Views,
    retention_head: Head | None = None,
    between_runs: Callable[[], None] = lambda: None,
) -> None:
    """Run several consumers alternately until the end of the log. With a `CachedCommitReader` they share each read."""
    behind = list(consumers)
    while behind := [
        consumer
        for consumer in behind
        if run_once(consumer, server, log, views, MAX_RUN_COMMITS, retention_head) == MAX_RUN_COMMITS
    ]:
        between_runs()


def measure_lag(name: str, clock: Clock, measure: Measure) -> Callable[[Commit], None]:
    """Return a callback for `catch_up` that records the age of the last commit in milliseconds as metric `name`."""
    return lambda commit: measure(name, max(clock() - commit.at_us // 1000, 0))


def _handle_next(
    consumer: Consumer, server: int, log: CommitSource, views: Views, limit: int, retention_head: Head | None
) -> Sequence[Commit]:
    checkpoint = load_checkpoint(consumer.name, server, views)
    head = checkpoint.head
    if retention_head is not None and retention_head.session >= head.session:
        head = retention_head
    commits = list(islice(verify_contiguous(head, log.read(server, head.session, limit)), limit))
    if commits:
        consumer.handle(checkpoint, commits)
        views.put([checkpoint.advance(consumer.name, commits[-1].head)])
    return commits
