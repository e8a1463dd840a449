"""Silences and acknowledgements mute later events until they end."""

from typing import Any

import pytest

from chalicelib.domain.calm.mutes import (
    ALERT_TEXT_START,
    MAX_MUTES,
    Mutes,
    acknowledged_event,
    silenced_event,
    unsilenced_event,
)
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent, encode
from chalicelib.domain.events.ids import Id

HOUR = 3_600_000_000


def stored(event_id: int, new: NewEvent) -> Event:
    return Event(Id(1, event_id, 1), event_id, event_id, encode(new).decode())


def finish(event_id: int, job_type: str = "backup", success: str = "0", node: str = "n1") -> Event:
    payload = JsonPayload(type="json", data={"success": success, "message": ""})
    return stored(event_id, NewEvent(type=("job", "finish", node, job_type), key="/job/1", payload=payload))


def after(*events: Event) -> Mutes:
    mutes = Mutes()
    for event in events:
        mutes = Mutes.parse(mutes.fold(event, "anna").data)
    return mutes


def test_silence_mutes_job_type_until_its_time() -> None:
    mutes = after(stored(10, silenced_event("backup", None, HOUR, "maintenance")))
    muted = [mutes.mutes(finish(number)) for number in (5, 11, HOUR - 1, HOUR)]
    assert muted == [False, True, True, False]
    assert mutes.mutes(finish(11, success="1"))
    assert not mutes.mutes(finish(11, "deploy"))


def test_silence_mutes_pattern_of_types() -> None:
    mutes = after(stored(10, silenced_event(None, ("job", "?", "n1", "*"), HOUR, "")))
    assert mutes.mutes(finish(11, "anything"))
    assert not mutes.mutes(finish(11, node="n2"))


def test_silence_never_mutes_alerts() -> None:
    mutes = after(stored(10, silenced_event(None, ("*",), HOUR, "")))
    assert mutes.mutes(finish(11))
    assert not mutes.mutes(stored(11, unsilenced_event(10)))


def test_unsilenced_event_ends_silence_for_later_events() -> None:
    mutes = after(stored(10, silenced_event("backup", None, HOUR, "")), stored(20, unsilenced_event(10)))
    assert [mutes.mutes(finish(number)) for number in (15, 25)] == [True, False]
    assert (len(mutes.active("silence", 15)), mutes.active("silence", 25)) == (1, [])


def test_acknowledgement_mutes_failures_until_success() -> None:
    begin = stored(10, acknowledged_event("backup", None, "known"))
    mutes = after(begin, finish(15, success="1", job_type="deploy"), finish(20), finish(30, success="1"))
    assert [mutes.mutes(finish(number)) for number in (5, 25, 31)] == [False, True, False]
    assert not mutes.mutes(finish(25, success="1"))


def test_acknowledgement_ends_at_its_time() -> None:
    mutes = after(stored(10, acknowledged_event("backup", HOUR, "known")))
    assert [mutes.mutes(finish(number)) for number in (11, HOUR)] == [True, False]


def test_mute_states_who_began_it() -> None:
    mutes = after(stored(10, silenced_event("backup", None, HOUR, "maintenance")))
    (silence,) = mutes.active("silence", 20)
    assert silence.json == {
        "id": 10,
        "type": "backup",
        "comment": "maintenance",
        "by": "anna",
        "until": "1970-01-01T01:00:00.000000Z",
        "since": "1970-01-01T00:00:00.000010Z",
    }


def test_ended_mutes_are_forgotten_once_they_are_past() -> None:
    mutes = after(stored(10, silenced_event("backup", None, HOUR, "")), stored(20, unsilenced_event(10)))
    assert (len(mutes.since(19).all), len(mutes.since(20).all)) == (1, 0)


def test_oldest_mute_ends_if_there_are_too_many() -> None:
    mutes = Mutes()
    for number in range(1, MAX_MUTES + 3):
        mutes = mutes.fold(stored(number, silenced_event(f"type {number}", None, HOUR, "")), "")
    active = mutes.active("silence", MAX_MUTES + 10)
    assert (len(active), active[-1].id) == (MAX_MUTES, 3)


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        {},
        {"type": "backup"},
        {"type": "backup", "until": "soon"},
        {"type": 7, "until": "2030-01-01T00:00:00Z"},
        {"type": "backup", "pattern": ["*"], "until": "2030-01-01T00:00:00Z"},
        {"pattern": ["*", "x"], "until": "2030-01-01T00:00:00Z"},
        {"pattern": [7], "until": "2030-01-01T00:00:00Z"},
        {"pattern": "*", "until": "2030-01-01T00:00:00Z"},
    ],
)
def test_malformed_silence_is_ignored(data: Any) -> None:
    new = NewEvent(type=("alert", "silenced"), payload=JsonPayload(type="json", data=data))
    assert after(stored(10, new)).all == ()


def test_alert_events_begin_with_their_type() -> None:
    event = stored(10, silenced_event("backup", None, HOUR, ""))
    assert event.text.startswith(ALERT_TEXT_START)
