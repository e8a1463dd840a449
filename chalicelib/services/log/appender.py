"""Append: number events by conditional write, exactly once, whole or not at all."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from chalicelib.domain.errors import (
    BadInput,
    Busy,
    ConditionFailed,
    Conflict,
    KeyReused,
    Refused,
    Unavailable,
    Unwritable,
)
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import EVENT_ID_END
from chalicelib.domain.log.append import RECEIPT_S, Append, AppendCondition, Receipt
from chalicelib.domain.log.commit import Appended, Commit, chained, next_commit
from chalicelib.services.log.write_plan import Outcome, Plan, Writing
from chalicelib.services.ports import Clock, Log, Measure, unmeasured
from chalicelib.services.reading.log_reader import LogReader, NoViews

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.25
MOST_STEPS = 6
"""So often the first pause is doubled before it is longer than the longest."""
CALMING_STEPS = 3
"""A request begins so many steps below where the one before it ended: in a crowd nobody begins with the shortest."""
PATIENCE_S = 4.0
"""Whoever has waited so long goes before those who have just come: the longer, the shorter the pauses ..."""
LEAST_PART = 0.05
"""... but never shorter than this part."""
DEADLINE_S = 10.0


class Appender:
    """Writes to the log and remembers, as a guess, where each log ends.

    A wrong guess costs a retry, never an event: the store refuses a session that is taken.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        pause: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        present: LogReader | None = None,
        measure: Measure = unmeasured,
        chance: random.Random | None = None,
        left_s: Callable[[], float] = lambda: DEADLINE_S,
    ) -> None:
        self._log = log
        self._present = present or LogReader(log, NoViews())
        self._clock = clock
        self._pause = pause
        self.monotonic = monotonic
        self._measure = measure
        self._chance = chance or random.Random()
        self._left_s = left_s
        self._heads: dict[int, Head] = {}
        self._crowd = 0
        """With which step the next request begins, should another be first."""

    def append(self, append: Append) -> Appended:
        """Write one request, or raise why it is refused."""
        return granted(self.append_group([self.checked(append)])[0])

    def checked(self, append: Append) -> Append:
        """`append` with its condition checked against all there is, however long that takes.

        Writing then has only the few commits to look at that came since.
        """
        condition = append.condition
        if condition is None or self._was_granted(append):
            return append
        head = self.head(append.server)
        if condition.after > head.last:
            head = self._heads[append.server] = self._log.head(append.server)
            if condition.after > head.last:
                raise BadInput(f"after={condition.after} lies in the future: the last event is {head.last}")
        start = self._present.at(append.server, condition.after)
        ahead = self._present.ahead(start, condition.fail_if_events_match)
        try:
            end = _refuse_match(condition, ahead.commits) or ahead.known
        except ConditionFailed:
            # What matches may be this very request, written since we looked for its receipt.
            if self._was_granted(append):
                return append
            raise
        return append._replace(checked=end if end.session > ahead.known.session else ahead.known)

    def append_group(self, appends: Sequence[Append]) -> list[Outcome]:
        """Write several requests at once, each its own session; the outcome of each, in order.

        Raises `Busy` if others kept winning until the deadline (nothing written), and `Unavailable` if the
        store did not answer (it may have written all of it).
        """
        writing = self.begin(appends, self.deadline())
        while (outcomes := self.attempt(writing)) is None:
            self.pause(writing)
        return outcomes

    def deadline(self) -> float:
        """When a request that comes now is tried for the last time."""
        return self.monotonic() + min(DEADLINE_S, self._left_s())

    def begin(self, appends: Sequence[Append], deadline: float) -> Writing:
        """Requests that are to be written together."""
        return Writing(appends, deadline, self.monotonic(), self._crowd)

    def attempt(self, writing: Writing) -> list[Outcome] | None:
        """Try once to write a group; None: it has to be tried again, after a pause."""
        try:
            plan = writing.plan = writing.plan or self._plan(writing.appends)
            self._perform(plan)
        except Conflict as conflict:
            # Somebody else has the place, so nothing of ours was written: it is numbered anew.
            writing.plan, writing.is_unknown = None, False
            self._try_again(writing, "Conflicts", _contended(conflict))
            writing.pause_s = self._jittered(writing.step, self.monotonic() - writing.began_s)
            writing.step, writing.silences = writing.step + 1, 0
        except Unwritable as failure:
            if writing.is_unknown:
                raise Unavailable(f"{failure} now; before that it may have been") from failure
            raise
        except Unavailable as failure:
            writing.is_unknown = writing.plan is not None
            self._try_again(writing, "Retries", failure)
            writing.pause_s = self._jittered(writing.silences)
            writing.silences += 1
        else:
            self._crowd = min(max(writing.step - CALMING_STEPS, 0), MOST_STEPS)
            self._heads.update(plan.heads)
            self._count(plan)
            return plan.outcomes
        return None

    def pause(self, writing: Writing) -> None:
        """Wait before the next try."""
        self._pause(writing.pause_s)

    def head(self, server: int) -> Head:
        """Where the log ends, as far as this writer knows."""
        head = self._heads.get(server)
        if head is None:
            head = self._heads[server] = self._log.head(server)
        return head

    def _perform(self, plan: Plan) -> None:
        if plan.commits:
            self._log.append(plan.commits, plan.receipts, plan.now_ms // 1000)

    def _try_again(self, writing: Writing, measured: str, reason: Exception) -> None:
        """Guess no more where the logs end; at the deadline there is no next try, for this reason."""
        self._heads.clear()
        if self.monotonic() > writing.deadline:
            raise reason
        self._measure(measured)

    def _count(self, plan: Plan) -> None:
        if plan.commits and self._measure is not unmeasured:
            self._measure("Commits", len(plan.commits))
            self._measure("Events", sum(commit.n for commit in plan.commits))

    def _plan(self, appends: Sequence[Append]) -> Plan:
        plan = Plan(self._clock())
        for append in appends:
            try:
                outcome = self._outcome(append, plan, plan.now_ms)
            except (Refused, Busy) as refusal:
                outcome = refusal
            plan.outcomes.append(outcome)
        return plan

    def _outcome(self, append: Append, plan: Plan, now_ms: int) -> Outcome:
        if append.idempotency_key is None:
            return self._planned(append, plan, now_ms)
        try:
            return self._replayed(append, plan, now_ms) or self._planned(append, plan, now_ms)
        except ConditionFailed as refusal:
            # What matches may be this very request, written since we looked for its receipt.
            return self._replayed(append, plan, now_ms) or refusal

    def _replayed(self, append: Append, plan: Plan, now_ms: int) -> Outcome | None:
        """The first answer to this idempotency key, if it was used before."""
        key = append.idempotency_key
        if key is None:
            return None
        receipt = plan.receipt(append.server, key) or self._log.receipt(append.server, key, now_ms // 1000)
        if receipt is None:
            return None
        if receipt.digest != append.digest:
            raise KeyReused(key)
        return Appended(self._commit(append.server, receipt.session, plan), replayed=True)

    def _was_granted(self, append: Append) -> bool:
        key = append.idempotency_key
        return key is not None and self._log.receipt(append.server, key, self._clock() // 1000) is not None

    def _commit(self, server: int, session: int, plan: Plan) -> Commit:
        planned = (commit for commit in plan.of_server(server) if commit.session == session)
        commit = next(planned, None) or self._log.commit(server, session)
        if commit is None:
            raise BadInput("the first request with this Idempotency-Key was granted, but is no longer kept")
        return commit

    def _planned(self, append: Append, plan: Plan, now_ms: int) -> Outcome:
        # Read once: other threads may learn of a later head any time, and what lies between must not go unchecked.
        stored = plan.stored.setdefault(append.server, self.head(append.server))
        self._check_condition(append, stored, plan)
        head = plan.heads.get(append.server, stored)
        commit = next_commit(head, append, now_ms)
        if commit.last >= EVENT_ID_END:
            raise Busy("the clock is beyond the year 2255")
        plan.commits.append(commit)
        plan.heads[append.server] = commit.head
        if append.idempotency_key is not None:
            plan.receipts.append(
                Receipt(
                    append.server,
                    append.idempotency_key,
                    append.digest,
                    commit.session,
                    append.request_id,
                    now_ms // 1000 + RECEIPT_S,
                )
            )
        return Appended(commit)

    def _check_condition(self, append: Append, stored: Head, plan: Plan) -> None:
        """Look at what came since `checked`, up to the head at least; the conditional write covers what comes now."""
        if append.condition is None:
            return
        checked = append.checked or Head(append.server)
        tail = self._log.read(append.server, checked.session) if checked.session < stored.session else iter(())
        _refuse_match(append.condition, chain(chained(checked, tail), plan.of_server(append.server)))

    def _jittered(self, step: int, waited_s: float = 0.0) -> float:
        """Full jitter: anywhere between nothing and a limit that grows with each step, and shrinks with patience."""
        limit_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(step, MOST_STEPS))
        return self._chance.uniform(0, limit_s * max(1 - waited_s / PATIENCE_S, LEAST_PART))


def granted(outcome: Outcome) -> Appended:
    """The outcome itself, or raise it if it is a refusal."""
    if isinstance(outcome, Appended):
        return outcome
    raise outcome


def _refuse_match(condition: AppendCondition, commits: Iterable[Commit]) -> Head | None:
    """The head after the last of `commits`, unless one of them breaks the condition."""
    head = None
    for commit in commits:
        match = condition.first_match(commit.events)
        if match is not None:
            raise ConditionFailed(match.event_id)
        head = commit.head
    return head


def _contended(conflict: Conflict) -> Busy:
    busy = Busy("too many writers contend for the log; nothing was written")
    busy.__cause__ = conflict
    return busy
