"""Appends under way: what will be answered once they are written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Appended


class Pending(Protocol):
    """A request to write whose outcome may not be known yet."""

    @property
    def done(self) -> bool:
        """Whether `result` would answer at once."""

    def hurried(self) -> bool:
        """Have it written if the store answers at once; whether the outcome is known."""

    def then(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when the outcome is known; perhaps at once."""

    def result(self) -> Appended | Head:
        """The outcome, or raise why it is refused; waits until it is known."""


@dataclass(frozen=True, slots=True)
class Settled:
    """An outcome that is known; the log's head if there was nothing to write."""

    outcome: Appended | Head
    done = True

    def hurried(self) -> bool:
        """It is known."""
        return True

    def then(self, tell: Callable[[], object]) -> None:
        """It is known already."""
        tell()

    def result(self) -> Appended | Head:
        """The outcome."""
        return self.outcome
