"""The system: where an organization's log stands, and how far those who follow it have come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECT
from chalicelib.services.consumers.consumer import checkpoint_of
from chalicelib.services.notifications.matching import OBSERVE
from chalicelib.services.ports import Clock, Log, Views
from chalicelib.services.reading.retention import Forgotten


@dataclass(frozen=True, slots=True)
class Follower:
    """A consumer, and how far it has come with one log."""

    name: str
    head: Head
    behind: int
    """How many commits it has not handled yet."""
    lag_s: float
    """For how long the first of them has waited; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a log stands."""

    head: Head
    first_kept: int | None
    """The first EventId that readers can see; None: there is none."""
    followers: tuple[Follower, ...]


@dataclass(frozen=True, slots=True)
class Consumers:
    """Where consumers keep how far they have come, by the names under which people know them."""

    views: Views
    progress: Views

    def checkpoints(self, server: int) -> Sequence[tuple[str, Head]]:
        """How far each has come with the log of `server`."""
        return (
            ("project", checkpoint_of(PROJECT, server, self.views).head),
            ("observe", checkpoint_of(OBSERVE, server, self.progress).head),
        )


def standing(server: int, log: Log, consumers: Consumers, forgotten: Forgotten, clock: Clock) -> Standing:
    """Where the log of `server` stands now, in a few reads."""
    reached = consumers.checkpoints(server)  # before the head, which nobody can have passed
    head = log.head(server)
    return Standing(head, _first_kept(log, server, forgotten), tuple(_followers(reached, head, log, clock)))


def _first_kept(log: Log, server: int, forgotten: Forgotten) -> int | None:
    commit = next(log.read(server, forgotten.before.session, 1), None)
    return None if commit is None else max(commit.at, forgotten.last + 1)


def _followers(reached: Sequence[tuple[str, Head]], head: Head, log: Log, clock: Clock) -> Iterator[Follower]:
    for name, at in reached:
        behind = max(head.session - at.session, 0)
        waiting = next(log.read(head.server, at.session, 1), None) if behind else None
        lag_s = 0.0 if waiting is None else max(clock() - waiting.at // 1000, 0) / 1000
        yield Follower(name, at, behind, lag_s)
