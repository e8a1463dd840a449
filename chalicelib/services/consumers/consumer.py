"""Consumers: each processes every log in order and remembers its position in checkpoints.

A consumer works in runs of limited size. It stores its checkpoint at the end of each run, and within a run whenever its
handler reports progress, so that work that was interrupted does not start over.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from chalicelib.domain.errors import DamagedRecord, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.healing import heal
from chalicelib.services.consumers.run_claims import Claim, RunClaim, RunTaken, load_claim, put_claim
from chalicelib.services.ports import Clock, Measure, Views

MAX_RUN_COMMITS = 200
MAX_RUN_EVENTS = 5_000
"""A run ends after the commit that reaches this number. A Lambda function can project it well within its time."""
MAX_HALVINGS = MAX_RUN_EVENTS.bit_length()
"""A run that was halved this often has one commit."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A handler of commits and the name of its checkpoints. Delivery is at least once, so `handle` is idempotent."""

    name: str
    handle: Callable[[Checkpoint, Sequence[Commit]], Iterable[Checkpoint] | None]
    """Handle the commits. It either returns None when all is done, or yields each position up to which all is done."""


@dataclass(frozen=True, slots=True)
class ClaimingConsumer:
    """A consumer whose claimed runs are always repeated with the same commits, also by other processes."""

    name: str
    handle: Callable[[Checkpoint, Sequence[Commit], Claim], Iterable[Checkpoint]]
    """Like the one of `Consumer`. It claims the run before its first write that depends on the end of the run.

    A run that was not claimed may end elsewhere when it is repeated, so that a run that timed out can be halved.
    """
    start_over: Callable[[int], None]
    """Called with the server if the commits of a claimed run are no longer stored."""


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
            commits, _ = _take(self._log.read(server, after, limit), RunLimit(limit or MAX_RUN_COMMITS))
            self._commits, self._cached_read = commits, read
        return iter(self._commits)


@dataclass(frozen=True, slots=True)
class RunLimit:
    """The size of a run: at most `commits`, and not more than the commit that reaches `events`."""

    commits: int = MAX_RUN_COMMITS
    events: int = MAX_RUN_EVENTS

    def shrink(self, halvings: int) -> "RunLimit":
        return RunLimit(max(self.commits >> halvings, 1), max(self.events >> halvings, 1))


class RunSizes:
    """Halves the runs of a consumer in a log after each timeout, and doubles them again after each success."""

    def __init__(self) -> None:
        self._halvings: dict[tuple[str, int], int] = {}

    def limit(self, consumer: str, server: int) -> RunLimit:
        return RunLimit().shrink(self._halvings.get((consumer, server), 0))

    def record_timeout(self, consumer: str, server: int) -> None:
        self._halvings[consumer, server] = min(self._halvings.get((consumer, server), 0) + 1, MAX_HALVINGS)

    def record_success(self, consumer: str, server: int) -> None:
        halvings = self._halvings.pop((consumer, server), 0)
        if halvings > 1:
            self._halvings[consumer, server] = halvings - 1


def run_once(
    consumer: Consumer | ClaimingConsumer,
    server: int,
    log: CommitSource,
    views: Views,
    limit: int = MAX_RUN_COMMITS,
    retention_head: Head | None = None,
) -> int:
    """Handle at most `limit` commits and advance the checkpoint. Returns the number of commits handled.

    Commits up to `retention_head` are no longer kept and are skipped. Concurrent runs of the same consumer are safe:
    the first one advances the checkpoint, and the store refuses the write of the other.
    """
    return len(_Runner(consumer, server, log, views, retention_head).run(RunLimit(limit)).handled)


def catch_up(
    consumer: Consumer | ClaimingConsumer,
    server: int,
    log: CommitSource,
    views: Views,
    retention_head: Head | None = None,
    report_last: Callable[[Commit], None] | None = None,
    between_runs: Callable[[], None] = lambda: None,
    has_time: Callable[[], bool] = lambda: True,
    sizes: RunSizes | None = None,
) -> bool:
    """Run the consumer until it reaches the end of the log, or until `has_time` returns False.

    Returns whether it has reached the end. A run with fewer commits than its limit counts as the end: a later commit
    triggers the consumer again. A steady writer therefore does not keep it busy with runs of one or two commits.
    `report_last` gets the last commit handled, if any.
    """
    sizes, runner = sizes or RunSizes(), _Runner(consumer, server, log, views, retention_head, has_time)
    last = None
    while True:
        try:
            run = runner.run(sizes.limit(consumer.name, server))
        except Unavailable:
            sizes.record_timeout(consumer.name, server)
            raise
        sizes.record_success(consumer.name, server)
        last = run.handled[-1] if run.handled else last
        if not run.has_more or not has_time():
            break
        between_runs()
    if last is not None and report_last is not None:
        report_last(last)
    return not run.has_more


def measure_lag(name: str, clock: Clock, measure: Measure) -> Callable[[Commit], None]:
    """Return a callback for `catch_up` that records the age of the last commit in milliseconds as metric `name`."""
    return lambda commit: measure(name, max(clock() - commit.at_us // 1000, 0))


@dataclass(frozen=True, slots=True)
class _Run:
    """The commits that a run has handled completely, and whether there may be more to do."""

    handled: Sequence[Commit]
    has_more: bool


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs a consumer on one log."""

    consumer: Consumer | ClaimingConsumer
    server: int
    log: CommitSource
    views: Views
    retention_head: Head | None = None
    has_time: Callable[[], bool] = lambda: True

    def run(self, limit: RunLimit) -> _Run:
        while True:
            try:
                return self._attempt(limit)
            except RunTaken:
                continue
            except DamagedRecord as damaged:
                heal(self.views, damaged)
                return _Run([], has_more=False)

    def _attempt(self, limit: RunLimit) -> _Run:
        checkpoint = load_checkpoint(self.consumer.name, self.server, self.views)
        if isinstance(self.consumer, ClaimingConsumer):
            return self._attempt_claimed(self.consumer, checkpoint, limit)
        commits, is_full = self._next_commits(checkpoint, limit)
        if not commits:
            return _Run([], has_more=False)
        positions = self.consumer.handle(checkpoint, commits) or [checkpoint.at(commits[-1].head)]
        return self._store_positions(checkpoint, commits, positions, is_full)

    def _attempt_claimed(self, consumer: ClaimingConsumer, checkpoint: Checkpoint, limit: RunLimit) -> _Run:
        claim = load_claim(checkpoint, self.views)
        if claim.is_open(checkpoint):
            if load_checkpoint(consumer.name, self.server, self.views).record_version != checkpoint.record_version:
                raise RunTaken  # Another process has completed a run, and claimed this one with a later checkpoint.
            commits, is_full = _read_run(claim, self.log), True
            if not commits:
                consumer.start_over(self.server)
                return _Run([], has_more=True)
        else:
            commits, is_full = self._next_commits(checkpoint, limit)
            if not commits:
                return _Run([], has_more=False)
            claim = replace(claim, start=commits[0].previous_head, end=commits[-1].session)
        positions = consumer.handle(checkpoint, commits, lambda: put_claim(checkpoint, claim, self.views))
        return self._store_positions(checkpoint, commits, positions, is_full)

    def _next_commits(self, checkpoint: Checkpoint, limit: RunLimit) -> tuple[list[Commit], bool]:
        """The commits of the next run, and whether there may be more."""
        head = checkpoint.head
        if self.retention_head is not None and self.retention_head.session >= head.session:
            head = self.retention_head
        return _take(verify_contiguous(head, self.log.read(self.server, head.session, limit.commits)), limit)

    def _store_positions(
        self, checkpoint: Checkpoint, commits: Sequence[Commit], positions: Iterable[Checkpoint], is_full: bool
    ) -> _Run:
        """Move the checkpoint to each position as soon as it is reached."""
        for position in positions:
            write = position.to_write(self.consumer.name, checkpoint.record_version)
            refused = self.views.put([write])
            checkpoint = replace(position, record_version=write.record.version)
            # After a refusal another process has moved the checkpoint. The next run starts there.
            if refused or not self.has_time():
                break
        handled = [commit for commit in commits if commit.session <= checkpoint.head.session]
        return _Run(handled, is_full or checkpoint.head.session < commits[-1].session)


def _read_run(claim: RunClaim, log: CommitSource) -> list[Commit]:
    """All commits of the run, none if some of them are no longer stored."""
    commits: list[Commit] = []
    head = claim.start
    while head.session < claim.end:
        page = list(log.read(head.server, head.session, claim.end - head.session))
        if not page or page[0].session != head.session + 1:
            return []
        commits += verify_contiguous(head, page)
        head = commits[-1].head
    return commits


def _take(commits: Iterable[Commit], limit: RunLimit) -> tuple[list[Commit], bool]:
    """The first of `commits`, at least one if there is any, and whether the limit was reached."""
    taken: list[Commit] = []
    events = 0
    for commit in commits:
        taken.append(commit)
        events += commit.event_count
        if len(taken) >= limit.commits or events >= limit.events:
            return taken, True
    return taken, False
