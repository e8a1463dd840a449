"""Consumers: whoever goes through the logs in order, each from its own checkpoint, whatever woke it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, chained
from chalicelib.domain.views.record import Checkpoint, checkpoints
from chalicelib.services.ports import Clock, Measure, Views

RUN_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Consumer:
    """A name for its checkpoints, and what it does with commits. It may get the same commits again."""

    name: str
    handle: Callable[[Checkpoint, Sequence[Commit]], None]


class Reads(Protocol):
    """What a consumer needs of the logs."""

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions greater than `after`, ascending, `most` at most."""


class LastRun:
    """Logs whose last run is at hand: whoever comes to the same place right after gets the same, read and parsed."""

    def __init__(self, log: Reads) -> None:
        self._log = log
        self._read: tuple[int, int, int | None] | None = None
        self._commits: list[Commit] = []

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """What was read last, if it is that; else what there is now."""
        wanted = server, after, most
        if wanted != self._read or not self._commits:
            self._commits, self._read = list(islice(self._log.read(server, after, most), most)), wanted
        return iter(self._commits)


def checkpoint_of(consumer: str, server: int, views: Views) -> Checkpoint:
    """How far the consumer has come with the log of `server`."""
    return Checkpoint.of(server, views.get(checkpoints(server), [consumer]).get(consumer))


def run(
    consumer: Consumer, server: int, log: Reads, views: Views, most: int = RUN_COMMITS, kept: Head | None = None
) -> int:
    """Handle the next commits, `most` at most, then move the checkpoint; how many there were.

    Commits up to `kept` are past retention: whoever has not come so far goes on from there. Another run at the same
    time does no harm: whoever is first moves the checkpoint, the other one's move is refused.
    """
    return len(_handled(consumer, server, log, views, most, kept))


def catch_up(
    consumer: Consumer,
    server: int,
    log: Reads,
    views: Views,
    kept: Head | None = None,
    caught_up: Callable[[Commit], None] | None = None,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Run until the end of the log; `caught_up` is told of the last commit there, if any was handled.

    A run that could have handled more has come to the end: what is written meanwhile wakes the consumer again. So
    whoever writes all the time does not keep it at runs of a commit or two. `between` is called between runs.
    """
    commits = _handled(consumer, server, log, views, RUN_COMMITS, kept)
    last = commits[-1] if commits else None
    while len(commits) == RUN_COMMITS:
        between()
        commits = _handled(consumer, server, log, views, RUN_COMMITS, kept)
        last = commits[-1] if commits else last
    if last is not None and caught_up is not None:
        caught_up(last)


def catch_up_together(
    consumers: Sequence[Consumer],
    server: int,
    log: Reads,
    views: Views,
    kept: Head | None = None,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Run until the end of the log, one after the other in each run: a `LastRun` is read once for all of them."""
    behind = list(consumers)
    while behind := [one for one in behind if run(one, server, log, views, RUN_COMMITS, kept) == RUN_COMMITS]:
        between()


def lag(name: str, clock: Clock, measure: Measure) -> Callable[[Commit], None]:
    """What measures, as `name`, how many milliseconds old the last commit is that was handled."""
    return lambda commit: measure(name, max(clock() - commit.at // 1000, 0))


def _handled(
    consumer: Consumer, server: int, log: Reads, views: Views, most: int, kept: Head | None
) -> Sequence[Commit]:
    checkpoint = checkpoint_of(consumer.name, server, views)
    head = checkpoint.head if kept is None or kept.session < checkpoint.head.session else kept
    commits = list(islice(chained(head, log.read(server, head.session, most)), most))
    if commits:
        consumer.handle(checkpoint, commits)
        views.put([checkpoint.moved(consumer.name, commits[-1].head)])
    return commits
