"""The outcome of an append, known or pending."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from chalicelib.domain.errors import Busy, LogBroken, Refused
from chalicelib.domain.log.commit import Appended

Outcome = Appended | Refused | Busy | LogBroken


def unwrap(outcome: Outcome) -> Appended:
    """Return a success, or raise a refusal."""
    if isinstance(outcome, Appended):
        return outcome
    raise outcome


class SubmittedAppend(NamedTuple):
    """An append of a group that is going to be written.

    All appends of a group share one future. A future for each would take a tenth of the time of an append.
    """

    group: Future[Sequence[Outcome]]
    """The outcomes of all appends of the group."""
    place: int
    """The place of its outcome among them."""

    def result(self, timeout_s: float | None = None) -> Appended:
        """Wait for the outcome. Raises the reason if the append is refused."""
        return unwrap(self.group.result(timeout_s)[self.place])
