"""The stored states of calm observers, and the silences and acknowledgements of each log.

They are in the store of the checkpoints, because they cannot be rebuilt: retention may have deleted their events.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic_core import from_json, to_json

from chalicelib.domain.calm.fold import CalmState
from chalicelib.domain.calm.mutes import Mutes
from chalicelib.domain.notifications.observer import Observer
from chalicelib.domain.views.record import MAX_CHARACTER, ConditionalWrite, Record
from chalicelib.services.ports import Views

_MUTES_ITEM = "all"


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state of an observer, and the version of its record. None: the record does not exist."""

    state: CalmState
    version: int | None = None


@dataclass(frozen=True, slots=True)
class StoredMutes:
    """The silences and acknowledgements of a log, and the version of their record."""

    mutes: Mutes
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CalmStates:
    """Loads and stores the states of the observers of all logs."""

    progress: Views

    def load(self, server: int, observers: Sequence[Observer]) -> dict[str, StoredState]:
        """The state of each observer. An observer that was deleted and created again starts with an empty state."""
        records = self.progress.get(_states_view(server), [observer.name for observer in observers])
        return {observer.name: _stored_state(observer, records.get(observer.name)) for observer in observers}

    def names(self, server: int) -> Iterator[str]:
        """The observers with a stored state."""
        return (record.item for record in self.progress.range(_states_view(server), "", MAX_CHARACTER))

    def write(self, server: int, observer: Observer, state: CalmState, version: int | None) -> ConditionalWrite:
        """Replace the state that has this version."""
        data = to_json({"since": observer.since, "position": state.position, "state": state.data}).decode()
        return ConditionalWrite(Record(_states_view(server), observer.name, (version or 0) + 1, data), version)

    def load_mutes(self, server: int) -> StoredMutes:
        record = self.progress.get(_mutes_view(server), [_MUTES_ITEM]).get(_MUTES_ITEM)
        return StoredMutes(Mutes()) if record is None else StoredMutes(Mutes.parse(record.data), record.version)

    def write_mutes(self, server: int, mutes: Mutes, version: int | None) -> ConditionalWrite:
        """Replace the mutes that have this version."""
        return ConditionalWrite(Record(_mutes_view(server), _MUTES_ITEM, (version or 0) + 1, mutes.data), version)

    def forget_after(self, server: int, event_id: int) -> None:
        """Forget all that events after this one have changed, because the log does not have them any more."""
        stored = self.load_mutes(server)
        kept = Mutes(
            tuple(
                replace(mute, ended_us=None) if (mute.ended_us or 0) > event_id else mute
                for mute in stored.mutes.all
                if mute.id <= event_id
            )
        )
        if kept != stored.mutes:
            self.progress.put([self.write_mutes(server, kept, stored.version)])
        view = _states_view(server)
        states = self.progress.range(view, "", MAX_CHARACTER)
        self.progress.delete(view, [one.item for one in states if from_json(one.data)["position"] > event_id])


def _stored_state(observer: Observer, record: Record | None) -> StoredState:
    if record is None:
        return StoredState(CalmState())
    data = from_json(record.data)
    is_current = data["since"] == observer.since
    return StoredState(CalmState.parse(data["position"], data["state"]) if is_current else CalmState(), record.version)


def _states_view(server: int) -> str:
    return f"{server}/calm"


def _mutes_view(server: int) -> str:
    return f"{server}/mutes"
