"""Status of an organization's log and of its consumers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECTOR
from chalicelib.services.consumers.checkpoints import OBSERVE_CONSUMER, load_checkpoint
from chalicelib.services.ports import Clock, Log, Views
from chalicelib.services.reading.retention import RetentionBoundary


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """The progress of a consumer in one log."""

    name: str
    head: Head
    behind: int
    """Number of commits that it has not handled yet."""
    lag_s: float
    """Age of the first of them, 0 if there are none."""


@dataclass(frozen=True, slots=True)
class LogStatus:
    """The status of one log."""

    head: Head
    first_kept: int | None
    """The first EventId that readers can see. None if there are no events."""
    consumers: tuple[ConsumerStatus, ...]


@dataclass(frozen=True, slots=True)
class ConsumerCheckpoints:
    """Reads the checkpoints of consumers, by their public names."""

    views: Views
    progress: Views

    def checkpoints(self, server: int) -> Sequence[tuple[str, Head]]:
        return (
            ("project", load_checkpoint(PROJECTOR, server, self.views).head),
            ("observe", load_checkpoint(OBSERVE_CONSUMER, server, self.progress).head),
        )


def log_status(
    server: int, log: Log, consumers: ConsumerCheckpoints, boundary: RetentionBoundary, clock: Clock
) -> LogStatus:
    # Read the checkpoints before the head, so that no consumer can be ahead of it.
    checkpoints = consumers.checkpoints(server)
    head = log.head(server)
    return LogStatus(head, _first_kept(log, server, boundary), tuple(_consumer_statuses(checkpoints, head, log, clock)))


def _first_kept(log: Log, server: int, boundary: RetentionBoundary) -> int | None:
    commit = next(log.read(server, boundary.head.session, 1), None)
    return None if commit is None else max(commit.at_us, boundary.event_id + 1)


def _consumer_statuses(
    checkpoints: Sequence[tuple[str, Head]], head: Head, log: Log, clock: Clock
) -> Iterator[ConsumerStatus]:
    for name, checkpoint in checkpoints:
        behind = max(head.session - checkpoint.session, 0)
        next_commit = next(log.read(head.server, checkpoint.session, 1), None) if behind else None
        lag_s = 0.0 if next_commit is None else max(clock() - next_commit.at_us // 1000, 0) / 1000
        yield ConsumerStatus(name, checkpoint, behind, lag_s)
