"""Append events to a log with conditional writes: exactly once, and each request completely or not at all.

Threads: any thread may call `precheck`, `head` and `deadline`. The attempts of one `GroupWrite` must not overlap.
`_heads`, `_next_counts` and `_contention_level` are shared without a lock: a stale value only costs a retry.
"""

import math
import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import (
    BadInput,
    Busy,
    ConditionFailed,
    Conflict,
    KeyReused,
    LogBroken,
    Refused,
    Unavailable,
    Unwritable,
)
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import EVENT_ID_END
from chalicelib.domain.log.append import RECEIPT_TTL_S, Append, AppendCondition, Receipt
from chalicelib.domain.log.commit import Appended, Commit, next_commit, verify_contiguous
from chalicelib.domain.log.outcome import Outcome, unwrap
from chalicelib.services.log.receipts import ProjectedReceipts, receipt_of
from chalicelib.services.log.write_plan import GroupWrite, WritePlan
from chalicelib.services.ports import Clock, Log, Measure, Receipts, ignore_metric
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews

BACKOFF = Backoff(initial_s=0.005, max_s=0.25)
MAX_CONTENTION_LEVEL = 6
"""Backoff step from which on pauses are as long as `BACKOFF.max_s`."""
CONTENTION_DECAY = 3
"""A write starts this many backoff steps below the step at which the previous write succeeded.

Under contention, writers then do not all begin with the shortest pause.
"""
FAIRNESS_WINDOW_S = 4.0
"""Pauses shrink linearly with the time a write has been waiting, until this time, so that old writes go first."""
MIN_BACKOFF_FACTOR = 0.05
"""Smallest factor by which waiting shrinks the pauses."""
APPEND_TIMEOUT_S = 10.0
CONDITION_TIMEOUT_S = 15.0
"""How long one append condition may be checked, including the time it waits for a thread."""
COUNT_INTERVAL_S = 60.0
"""Pause between attempts to count the events of a log, if too many of its commits are not projected yet."""


class Appender:
    """Writes to the logs, and caches the head of each log.

    A stale head costs a retry, never an event, because the store refuses a session that is already taken.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        pause: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        reader: LogReader | None = None,
        measure: Measure = ignore_metric,
        rng: random.Random | None = None,
        remaining_s: Callable[[], float] = lambda: math.inf,
        receipts: Receipts | None = None,
    ) -> None:
        self._log = log
        self._reader = reader or LogReader(log, NoViews())
        self._receipts = receipts or ProjectedReceipts(self._reader, clock=clock)
        self._clock = clock
        self._pause = pause
        self.monotonic = monotonic
        self._measure = measure
        self._rng = rng or random.Random()
        self._remaining_s = remaining_s
        self._heads: dict[int, Head] = {}
        self._next_counts: dict[int, float] = {}
        """Monotonic time of the next attempt to count the events of a log. Absent: now."""
        self._contention_level = 0
        """Backoff step at which the next write starts if it meets a conflict."""

    def append(self, append: Append) -> Appended:
        """Write one request. Raises the reason if it is refused."""
        return unwrap(self.append_group([self.precheck(append)])[0])

    def precheck(self, append: Append, deadline: float | None = None) -> Append:
        """Check the condition of `append` against the whole log, and note in the result how far it was checked.

        This may read a long log. Only the commits after it then have to be checked while writing. Raises `Busy` after
        `deadline`, which is `condition_deadline` of now if there is none.
        """
        condition = append.condition
        if condition is None:
            return append
        deadline = self.condition_deadline() if deadline is None else deadline
        self._check_time(deadline)
        if append.idempotency_key is not None:
            # A later commit with the key is found when the append is planned.
            head = self.head(append.server)
            if self.has_receipt(append.server, append.idempotency_key, head):
                return append
        if condition.after_position is not None:
            after = self._reader.event_id_at(append.server, condition.after_position)
            condition = condition.model_copy(update={"after": after})
            append = append._replace(condition=condition, request_digest=append.digest)
        head = self.head(append.server)
        if condition.after > head.last_event_id:
            self._heads.pop(append.server, None)
            head = self.head(append.server)
            if condition.after > head.last_event_id:
                raise BadInput(
                    f"after={condition.after} is beyond the end of the log: the last event is {head.last_event_id}"
                )
        start = self._reader.position_at(append.server, condition.after)
        run = self._reader.commits_after(start, condition.fail_if_events_match)
        try:
            end = _reject_match(condition, self._until(deadline, run.commits)) or run.complete_to
        except ConditionFailed:
            # The match may be this very request, if it was written after the receipt was looked up.
            if self.has_receipt(append.server, append.idempotency_key):
                return append
            raise
        return append._replace(verified_head=end if end.session > run.complete_to.session else run.complete_to)

    def condition_deadline(self) -> float:
        """Monotonic time until which the condition of a request that arrives now is checked."""
        return self.monotonic() + min(CONDITION_TIMEOUT_S, self._remaining_s())

    def append_group(self, appends: Sequence[Append]) -> list[Outcome]:
        """Write several requests in one transaction, each as its own session. Returns the outcomes in order.

        Raises `Busy` if other writers won until the deadline, and nothing was written. Raises `Unavailable` if the
        store did not answer, and everything may have been written.
        """
        write = self.begin(list(appends), self.deadline())
        while (outcomes := self.attempt(write)) is None:
            self.pause(write)
        return outcomes

    def deadline(self) -> float:
        """Monotonic time until which a request that arrives now is retried."""
        return self.monotonic() + min(APPEND_TIMEOUT_S, self._remaining_s())

    def begin(self, appends: list[Append], deadline: float) -> GroupWrite:
        """Start the write of a group. The caller calls `attempt` until it returns outcomes."""
        return GroupWrite(appends, deadline, self.monotonic(), self._contention_level)

    def attempt(self, write: GroupWrite) -> list[Outcome] | None:
        """Try to write a group. Returns None if the caller has to try again after `pause`."""
        try:
            plan = write.plan = write.plan or self._plan(write.appends)
            self._perform(plan)
        except Conflict as conflict:
            # Another writer took the session, so nothing of this plan was written. Plan again with new sessions.
            write.plan, write.may_be_written = None, False
            self._prepare_retry(write, "Conflicts", _contended(conflict))
            write.pause_s = self._jittered_pause_s(write.backoff_step, self.monotonic() - write.started_s)
            write.backoff_step, write.unanswered_attempts = write.backoff_step + 1, 0
        except Unwritable as failure:
            if write.may_be_written:
                raise Unavailable(f"{failure}; an earlier attempt may have been written") from failure
            raise
        except Unavailable as failure:
            write.may_be_written = write.plan is not None
            self._prepare_retry(write, "Retries", failure)
            write.pause_s = self._jittered_pause_s(write.unanswered_attempts)
            write.unanswered_attempts += 1
        else:
            self._contention_level = min(max(write.backoff_step - CONTENTION_DECAY, 0), MAX_CONTENTION_LEVEL)
            self._heads.update(plan.new_heads)
            self._receipts.remember(plan.commits)
            self._count(plan)
            return plan.outcomes
        return None

    def pause(self, write: GroupWrite) -> None:
        """Wait before the next attempt."""
        self._pause(write.pause_s)

    def head(self, server: int) -> Head:
        """The cached head of the log, which may be stale. Its position is known, unless counting takes too long."""
        head = self._heads.get(server)
        # Retention may have deleted all commits after a head of more than a day. A new one must not reuse their number.
        is_old = head is not None and 0 < head.last_event_id < (self._clock() - RECEIPT_TTL_S * 1000) * 1000
        if head is None or is_old or (head.position is None and self._is_count_due(server)):
            head = self._log.head(server)
            if head.position is None and self._is_count_due(server):
                head = head._replace(known_position=self._reader.count_events(head))
                if head.position is None:
                    self._next_counts[server] = self.monotonic() + COUNT_INTERVAL_S
            self._heads[server] = head
        return head

    def _is_count_due(self, server: int) -> bool:
        return self.monotonic() >= self._next_counts.get(server, 0.0)

    def _perform(self, plan: WritePlan) -> None:
        if plan.commits:
            self._log.append(plan.commits)

    def _prepare_retry(self, write: GroupWrite, metric: str, reason: Exception) -> None:
        """Drop the cached heads of the group's logs. Raise `reason` once the deadline has passed."""
        for server in {append.server for append in write.appends}:
            self._heads.pop(server, None)
        if self.monotonic() > write.deadline:
            raise reason
        self._measure(metric)

    def _count(self, plan: WritePlan) -> None:
        if plan.commits and self._measure is not ignore_metric:
            self._measure("Commits", len(plan.commits))
            self._measure("Events", sum(commit.event_count for commit in plan.commits))

    def _plan(self, appends: Sequence[Append]) -> WritePlan:
        plan = WritePlan(self._clock())
        for append in appends:
            try:
                if append.idempotency_key is None:
                    outcome: Outcome = self._plan_commit(append, plan)
                else:
                    outcome = self._plan_keyed_append(append, plan, appends)
            except (Refused, Busy, LogBroken) as refusal:  # A damaged log must not fail the appends to others.
                outcome = refusal
            plan.outcomes.append(outcome)
        return plan

    def _plan_keyed_append(self, append: Append, plan: WritePlan, group: Sequence[Append]) -> Outcome:
        if append.server not in plan.base_heads and append.server not in self._heads:
            # After a lost put, one read gets the head and the keys of the commits in between.
            end = self._receipts.read_end(append.server)
            if end is not None and end.position is not None:
                self._heads[append.server] = end
        # Keys are looked up in the commits up to this head. The conditional write covers later commits.
        base_head = self._base_head(append.server, plan)
        if append.server not in plan.receipts:
            # All keys of the group at once, because on AWS each lookup is several calls.
            keys = {each.idempotency_key for each in group if each.server == append.server and each.idempotency_key}
            plan.receipts[append.server] = self._receipts.receipts(append.server, keys, base_head)
        try:
            return self._replay(append, plan) or self._plan_commit(append, plan)
        except ConditionFailed as refusal:
            # The match may be this very request, if it was written after the receipts were looked up.
            plan.receipts.pop(append.server, None)
            return self._replay(append, plan) or refusal

    def _replay(self, append: Append, plan: WritePlan) -> Outcome | None:
        """The outcome of the first request with this idempotency key, if there was one."""
        key = append.idempotency_key
        if key is None:
            return None
        planned = plan.commit_with_key(append.server, key)
        if planned is not None:
            receipt: Receipt | None = receipt_of(planned)
        else:
            found = plan.receipts.get(append.server)
            receipt = (self._receipts.receipts(append.server, {key}) if found is None else found).get(key)
        if receipt is None or not receipt.is_valid(plan.now_ms):
            return None
        if receipt.digest != append.digest:
            raise KeyReused(key)
        commit = planned or self._log.commit(append.server, receipt.session)
        if commit is None:
            raise BadInput("a request with this Idempotency-Key was written, but its events are no longer kept")
        return Appended(commit, replayed=True)

    def has_receipt(self, server: int, key: str | None, head: Head | None = None) -> bool:
        """Whether a request with this idempotency key was written within 24 hours, up to `head` if there is one."""
        receipt = None if key is None else self._receipts.receipts(server, {key}, head).get(key)
        return receipt is not None and receipt.is_valid(self._clock())

    def _plan_commit(self, append: Append, plan: WritePlan) -> Outcome:
        base_head = self._base_head(append.server, plan)
        if append.condition is not None:
            self._check_condition(append, append.condition, base_head, plan)
        commit = next_commit(plan.new_heads.get(append.server, base_head), append, plan.now_ms)
        head = commit.head
        if head.last_event_id >= EVENT_ID_END:
            raise Busy("the clock is beyond the year 2255")
        plan.commits.append(commit)
        plan.new_heads[append.server] = head
        return Appended(commit)

    def _base_head(self, server: int, plan: WritePlan) -> Head:
        """The head that the plan is based on.

        The cached head is read once: other threads may update it, and a commit in between must not go unchecked.
        """
        head = plan.base_heads.get(server)
        if head is None:
            head = plan.base_heads[server] = self.head(server)
        return head

    def _check_condition(self, append: Append, condition: AppendCondition, base_head: Head, plan: WritePlan) -> None:
        """Check the commits since `precheck`, up to `base_head` at least. The conditional write covers later ones."""
        verified = append.verified_head or Head(append.server)
        tail = self._tail_after(verified, plan) if verified.session < base_head.session else iter(())
        _reject_match(condition, chain(verify_contiguous(verified, tail), plan.commits_of(append.server)))

    def _tail_after(self, head: Head, plan: WritePlan) -> Iterable[Commit]:
        """The commits after `head`. The conditions of a group share one read of the log, if it began early enough."""
        tail = plan.tails.get(head.server)
        if tail is None or head.session + 1 < tail[0].session:
            tail = list(self._log.read(head.server, head.session))
            if tail:
                plan.tails[head.server] = tail
        return tail[bisect_right(tail, head.session, key=lambda commit: commit.session) :]

    def _until(self, deadline: float, commits: Iterable[Commit]) -> Iterator[Commit]:
        """The commits. Raises `Busy` once the deadline has passed."""
        for commit in commits:
            self._check_time(deadline)
            yield commit

    def _check_time(self, deadline: float) -> None:
        if self.monotonic() > deadline:
            raise Busy(
                "the append condition took too long to check. Nothing was written. Retry, and give the position up to"
                " which you have read as `after`"
            )

    def _jittered_pause_s(self, step: int, waited_s: float = 0.0) -> float:
        """A random pause with full jitter. Its maximum grows with each step and shrinks with the time waited."""
        return self._rng.uniform(0, BACKOFF.delay_s(step, max(1 - waited_s / FAIRNESS_WINDOW_S, MIN_BACKOFF_FACTOR)))


def _reject_match(condition: AppendCondition, commits: Iterable[Commit]) -> Head | None:
    """Return the head after the last of `commits`. Raises `ConditionFailed` if one of them matches the condition."""
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
