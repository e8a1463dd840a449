"""The decisions about a calm observer, made again for a replay.

They depend on the events before the replay, so the fold starts where the observer began to observe. Its state is stored
between the parts of a replay. If it is not there, the fold starts over.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic_core import from_json, to_json

from chalicelib.domain.calm.fold import CalmState, Send, decide, release_all
from chalicelib.domain.calm.mutes import ALERT_PATTERN, ALERT_TEXT_START, Mutes
from chalicelib.domain.calm.rule import CalmRule
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import MAX_CHARACTER, ConditionalWrite, Record
from chalicelib.services.calm.alerts import fold_mute_events
from chalicelib.services.calm.decisions import Passes, facts_of
from chalicelib.services.calm.deliveries import digest_deliveries, event_deliveries
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader


@dataclass
class CalmReplay:
    """The fold of one replay. `position` is the EventId up to which it has decided."""

    observer: Observer
    replay: str
    rule: CalmRule
    mutes: Mutes
    configured: ConfigurationState
    passes: Passes
    concerns: Callable[[Event, Observer], bool]
    state: CalmState
    position: int

    def deliveries(self, event: Event) -> Iterator[Delivery]:
        """The deliveries to put because of the next event."""
        self.position = event.event_id
        if not self.observer.matches_type(event.fields.type) or not self.concerns(event, self.observer):
            return
        facts = facts_of(event, self.observer, self.rule, self.mutes, self.configured, self.passes)
        self.state, decision, released = decide(self.state, self.rule, facts)
        for digest in released:
            yield from digest_deliveries(digest, self.observer, self.replay)
        if isinstance(decision, Send):
            yield from event_deliveries(event, self.observer, self.replay)

    def rest(self) -> Iterator[Delivery]:
        """The deliveries that are still held at the end of the replay."""
        for digest in release_all(self.state):
            yield from digest_deliveries(digest, self.observer, self.replay)


@dataclass(frozen=True, slots=True)
class ReplayStates:
    """Stores the states of replays between their parts, one for each observer."""

    progress: Views

    def load(self, server: int, name: str, replay: str, after: int) -> tuple[CalmState, int] | None:
        """The state and its position, if it is not later than `after`. A part may be repeated."""
        record = self.progress.get(_view(server, name), [replay]).get(replay)
        if record is None:
            return None
        data = from_json(record.data)
        return (CalmState.parse(data["last"], data["state"]), data["position"]) if data["position"] <= after else None

    def store(self, server: int, fold: CalmReplay) -> None:
        """Store the state in place of that of any other replay of the observer."""
        view = _view(server, fold.observer.name)
        self.delete(server, fold.observer.name)
        members = {"position": fold.position, "last": fold.state.position, "state": fold.state.data}
        record = Record(view, fold.replay, 1, to_json(members).decode())
        self.progress.put([ConditionalWrite(record, None)])

    def delete(self, server: int, name: str) -> None:
        view = _view(server, name)
        self.progress.delete(view, [record.item for record in self.progress.range(view, "", MAX_CHARACTER)])


def mute_history(reader: LogReader, boundary: Head) -> Mutes:
    """All silences and acknowledgements that the log still contains."""
    alerts = reader.commits_after(boundary, Selection(types=(ALERT_PATTERN,))).commits
    first = next((commit for commit in alerts if ALERT_TEXT_START in commit.body), None)
    return Mutes() if first is None else fold_mute_events(reader, first.previous_head, Mutes())


def _view(server: int, name: str) -> str:
    return f"{server}/calm-replay/{name}"
