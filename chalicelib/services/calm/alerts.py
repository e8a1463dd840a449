"""Silences and acknowledgements: events in the log, written and listed here."""

from dataclasses import dataclass

from chalicelib.domain.calm.mutes import (
    ALERT_PATTERN,
    MAX_MUTES,
    RECOVERY_PATTERNS,
    Kind,
    Mute,
    Mutes,
    acknowledged_event,
    fold_all,
    silenced_event,
    unsilenced_event,
)
from chalicelib.domain.errors import BadInput, NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.calm.states import CalmStates
from chalicelib.services.consumers.checkpoints import OBSERVE_CONSUMER, load_checkpoint
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.ports import Clock
from chalicelib.services.reading.log_reader import LogReader

MUTE_EVENTS = Selection(types=(ALERT_PATTERN, *RECOVERY_PATTERNS))
"""The events that begin or end silences and acknowledgements."""


@dataclass(frozen=True, slots=True)
class Alerts:
    """The silences and acknowledgements of all organizations."""

    states: CalmStates
    reader: LogReader
    publisher: Publisher
    clock: Clock

    def active(self, server: int, kind: Kind) -> list[Mute]:
        """Those in effect, the newest first. Exact: events that are not matched yet are read from the log."""
        return self._mutes(server).active(kind, self.clock() * 1000)

    def silence(
        self, server: int, job_type: str | None, pattern: EventType | None, until_us: int, comment: str, by: str
    ) -> Mute:
        """Mute the events of a job type or a pattern until a time."""
        self._check(server, "silence", until_us)
        event_id = self._publish(server, silenced_event(job_type, pattern, until_us, comment), by)
        return Mute(event_id, "silence", job_type, pattern, until_us, comment, by)

    def acknowledge(self, server: int, job_type: str, until_us: int | None, comment: str, by: str) -> Mute:
        """Mute the failures of a job type until it recovers, or until a time."""
        self._check(server, "acknowledgement", until_us)
        event_id = self._publish(server, acknowledged_event(job_type, until_us, comment), by)
        return Mute(event_id, "acknowledgement", job_type, None, until_us, comment, by)

    def end_silence(self, server: int, silence: int, by: str) -> None:
        """Raises `NotFound` if the silence is not in effect."""
        if all(mute.id != silence for mute in self.active(server, "silence")):
            raise NotFound(f"there is no silence {silence} in effect")
        self._publish(server, unsilenced_event(silence), by)

    def _mutes(self, server: int) -> Mutes:
        matched = load_checkpoint(OBSERVE_CONSUMER, server, self.states.progress).head
        # Loaded after the checkpoint, so it contains all events up to there. Events are folded twice without harm.
        mutes = self.states.load_mutes(server).mutes
        start = self.reader.log.start(server)
        head = matched if matched.session >= start.session else start
        return fold_mute_events(self.reader, head, mutes)

    def _check(self, server: int, kind: Kind, until_us: int | None) -> None:
        if until_us is not None and until_us <= self.clock() * 1000:
            raise BadInput("until must be later than now")
        if len(self.active(server, kind)) >= MAX_MUTES:
            raise BadInput(f"at most {MAX_MUTES} can be in effect; wait until some have ended")

    def _publish(self, server: int, event: NewEvent, by: str) -> int:
        outcome = self.publisher.publish(server, [event], by=by)
        return outcome.last_event_id if isinstance(outcome, Head) else outcome.commit.last_event_id


def fold_mute_events(reader: LogReader, start: Head, mutes: Mutes) -> Mutes:
    """The mutes after all events that follow `start`."""
    commits = reader.commits_after(start, MUTE_EVENTS).commits
    return fold_all(mutes, ((event, commit.by) for commit in commits for event in commit.events))
