"""A simulated log with the history of one expectation, and workers that check it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.expectations import fold_json
from chalicelib.domain.expectations.alarm import Alarm
from chalicelib.domain.expectations.expectation import Expectation, ExpectationsState, Version, put_event
from chalicelib.domain.expectations.facts import JobFact
from chalicelib.domain.expectations.fold import ExpectationFold
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import next_commit
from tests.domain.expectations.reference import Expected, reference_alarms

NAME = "nightly"


@dataclass
class Timeline:
    """The log has facts and alarms. Its ids increase strictly, but the clock may be set back."""

    clock_us: int
    last_id: int = 0
    entries: list[JobFact | Alarm] = field(default_factory=list)
    configured: ExpectationsState = field(default_factory=ExpectationsState)
    configuration_head: Head = field(default_factory=lambda: Head(-2))
    saved: tuple[Any, int] | None = None
    """The JSON of a fold, and the number of entries in it."""

    @property
    def versions(self) -> Sequence[Version]:
        return self.configured.expectations[NAME].versions

    @property
    def expectation(self) -> Expectation:
        return self.configured.expectations[NAME].expectation

    @property
    def facts(self) -> list[JobFact]:
        return [entry for entry in self.entries if isinstance(entry, JobFact)]

    @property
    def alarms(self) -> list[Expected]:
        """The alarms in the log."""
        return [summary(entry) for entry in self.entries if isinstance(entry, Alarm)]

    @property
    def now_us(self) -> int:
        return max(self.clock_us, self.last_id)

    def put(self, expectation: Expectation) -> None:
        self.configure(put_event(NAME, expectation, self.last_id))

    def configure(self, event: NewEvent) -> None:
        append = Append(-2, encode_within_limits([event]), "r")
        commit = next_commit(self.configuration_head, append, self.clock_us // 1000)
        self.configuration_head = commit.head
        self.configured = self.configured.fold(commit.events[0])

    def job(self, name: str, job: int = 1, **more: Any) -> None:
        fact = {"type": "" if name == "redirect" else "backup", "node": "n1", "is_success": name == "finish"} | more
        self.entries.append(JobFact(self._next_id(), name, job, **fact))

    def load(self, is_cached: bool) -> ExpectationFold:
        """The fold of the whole log."""
        fold, position = None, 0
        if is_cached and self.saved is not None:
            state, position = self.saved
            fold = fold_json.from_json(self.versions, from_json(to_json(state)))
        if fold is None:
            fold, position = ExpectationFold(self.versions), 0
        for entry in self.entries[position:]:
            if isinstance(entry, JobFact):
                fold.apply_job(entry)
            else:
                fold.apply_alarm(entry)
        return fold

    def check(self, is_cached: bool = False, saves: bool = True, writes: bool = True) -> None:
        """The check of a worker. It may crash before it writes, or before it saves its state."""
        fold = self.load(is_cached)
        if saves:
            self.saved = fold_json.to_json(fold), len(self.entries)
        fold.advance(self.now_us)
        if writes:
            for alarm in fold.pending.values():
                assert self.now_us >= alarm.due_us
                self.entries.append(Alarm(alarm.kind, self._next_id(), alarm.data))

    def verify(self) -> None:
        """The alarms in the log are those of the second computation, each once."""
        now_us = self.now_us
        self.check()
        expected = reference_alarms(self.versions, self.facts, now_us)
        assert Counter(self.alarms) == Counter(expected)

    def _next_id(self) -> int:
        self.last_id = max(self.clock_us, self.last_id + 1)
        return self.last_id


def summary(alarm: Alarm) -> Expected:
    """An alarm in the form of the second computation."""
    data = alarm.data
    if alarm.kind == "overdue":
        time = data.get("silentSince", data["startedAt"])
        return alarm.kind, timestamps.parse(time), data["job"], data["reason"]
    time = next(data[name] for name in ("slot", "startedAt", "finishedAt") if name in data)
    return alarm.kind, timestamps.parse(time), data.get("job", -1), ""
