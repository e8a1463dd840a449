"""Jobs as values: their events, and what these fold into, stored and whole."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.log.commit import next_commit
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies import MOST_STATE_BYTES, job
from chalicelib.domain.vocabularies.job.objects import MOST_BYTES
from tests.conformance.anyjob.anyjob import (
    DATA,
    EVENTS,
    JOB,
    JOBSET,
    LOG,
    PLANNED,
    Json,
    create,
    finish,
    of_job,
    progress,
    without,
)

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
SIZES = (0, 1, MOST_BYTES // 2, MOST_BYTES - 2, MOST_BYTES - 1, 20_000)
"""Of texts: such as are kept in a stored state, and such as are not."""


def events_of(new: Sequence[NewEvent]) -> tuple[Event, ...]:
    """The events of one commit."""
    return next_commit(Head(1), Append(1, encoded(new), "r"), NOW_MS).events


def raw(event_type: str, key: str | None, data: Any, source: int | None = None) -> NewEvent:
    """A core event as anybody may publish it."""
    source_timestamp = None if source is None else {"s": source, "us": 0}
    payload = {"type": "json", "data": data}
    given = {"type": event_type.split("/"), "key": key, "payload": payload, "sourceTimestamp": source_timestamp}
    return NewEvent.model_validate(given)


def folded(own: Sequence[Json], collection: str = "job", path: str = "/1") -> State | None:
    """The object as it is stored after these events: read from its record and written to it each time."""
    state: State | None = None
    for event in events_of([job.new_event(one) for one in own]):
        if ObjectRef(collection, path) in job.objects_of(event.stored):
            state = vocabularies.fold(collection, from_json(to_json(state)), event)
    return state


def whole(own: Sequence[Json], collection: str = "job", path: str = "/1") -> State | None:
    """The object with all that it has to tell."""
    events = events_of([job.new_event(one) for one in own])
    ref = ObjectRef(collection, path)
    return vocabularies.whole(collection, [event for event in events if ref in job.objects_of(event.stored)])


def kept(stored: State, all_of_it: State) -> State:
    """Of the whole state what the stored one keeps."""
    left_out = {name for name, value in stored.items() if value is None} | {"ended", "failed"}
    return {name: stored[name] if name in left_out else value for name, value in all_of_it.items()}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_read_as_it_was_written_with_the_time_of_the_log(name: str) -> None:
    _, second = events_of([job.new_event(create(5)), job.new_event({**EVENTS[name], "time": 7})])
    assert job.own_json(second) == {"eventId": NOW_MS * 1000 + 1, "time": NOW_S, **EVENTS[name]}
    assert second.stored.source_timestamp == 7_000_000


@pytest.mark.parametrize("name", EVENTS)
def test_what_needs_not_be_said_is_read_as_nothing(name: str) -> None:
    """Maps that are not there are empty, and optional fields stay away, whoever wrote the event."""
    own = without(EVENTS[name], "params", "props", "jobset", "data")
    (event,) = events_of([job.new_event(own)])
    fields = without(own, "event", "node", "id", "type")
    (by_hand,) = events_of([raw("/".join(event.stored.type), event.stored.key, fields)])
    empty: Json = {"props": {}} if "JobSet" in name else {} if name == "redirect" else {"params": {}, "props": {}}
    assert job.own_json(event) == job.own_json(by_hand) == {"eventId": NOW_MS * 1000, "time": NOW_S, **own, **empty}


def test_a_line_of_a_log_gets_the_time_of_its_event_if_it_has_none() -> None:
    (event,) = events_of([job.new_event(progress(1, log={"message": "hello"}))])
    own = job.own_json(event)
    assert own is not None
    assert own["log"] == {"time": NOW_S, "message": "hello", "level": 0, "tag": ""}


def test_the_time_cannot_be_written_by_hand() -> None:
    (event,) = events_of([raw("job/create/n1/backup", "/job/1", {"time": 7, "params": {}, "props": {}}, source=5)])
    own = job.own_json(event)
    assert own is None or own["time"] == NOW_S


FINISH = {"success": "1", "message": "m"}
ODD = {
    "no payload": NewEvent(type=("job", "create", "n1", "backup"), key="/job/1"),
    "no key": raw("job/create/n1/backup", None, {}),
    "an odd key": raw("job/create/n1/backup", "/job/01", {}),
    "a key of a set": raw("job/create/n1/backup", "/jobset/1", {}),
    "a key beyond numbers": raw("job/create/n1/backup", "/job/9999999999999999", {}),
    "a key of other digits": raw("job/create/n1/backup", "/job/\u0661", {}),
    "a type too short": raw("job/create/n1", "/job/1", {}),
    "a type too long": raw("job/create/n1/backup/more", "/job/1", {}),
    "a redirect with a type": raw("job/redirect/n1/backup", "/job/1", {"redirect": "n2"}),
    "an unknown event": raw("job/cancel/n1/backup", "/job/1", {}),
    "an event of a set": raw("job/createJobSet/n1", "/job/1", {"jobs": []}),
    "only the name": raw("job", "/job/1", {}),
    "a list": raw("job/create/n1/backup", "/job/1", []),
    "null": raw("job/create/n1/backup", "/job/1", None),
    "an unknown field": raw("job/create/n1/backup", "/job/1", {"unknown": 1}),
    "the node twice": raw("job/create/n1/backup", "/job/1", {"node": "n2"}),
    "the event twice": raw("job/finish/n1/backup", "/job/1", {"event": "finish", **FINISH}),
    "a jobset that is true": raw("job/create/n1/backup", "/job/1", {"jobset": True}),
    "a jobset too large": raw("job/create/n1/backup", "/job/1", {"jobset": 2**60}),
    "success that is a number": raw("job/finish/n1/backup", "/job/1", {**FINISH, "success": 1}),
    "progress of nothing": raw("job/progress/n1/backup", "/job/1", {}),
}


@pytest.mark.parametrize("name", ODD)
def test_what_does_not_follow_the_vocabulary_changes_no_job(name: str) -> None:
    (before, event) = events_of([job.new_event(create(1, 7)), ODD[name]])
    state = vocabularies.fold("job", None, before)
    assert job.own_json(event) is None
    assert (vocabularies.fold("job", state, event), vocabularies.fold("job", None, event)) == (state, None)
    assert vocabularies.objects_of(event.stored) is not None


NULLS = {
    "create": ("jobset",),
    "progress": ("jobset", "state", "progress", "log", "data"),
    "redirect": ("jobset", "type", "params", "props"),
    "finish": ("jobset", "data"),
    "createJobSet": (),
    "progressJobSet": ("state", "data"),
    "cleanJobSet": (),
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, fields in NULLS.items() for field in fields])
def test_null_is_as_good_as_nothing(name: str, field: str) -> None:
    own = {**EVENTS[name], **({"state": "s"} if field == "log" else {}), field: None}
    (event,) = events_of([job.new_event(own)])
    fields = without(own, "event", "node", "id", *(() if name == "redirect" else ("type",)))
    (by_hand,) = events_of([raw("/".join(event.stored.type), event.stored.key, fields)])
    found = job.own_json(by_hand)
    assert found == job.own_json(event)
    assert found is not None
    assert field not in found


@pytest.mark.parametrize(
    ("event_type", "key", "data"),
    [
        ("job/create/n1/backup", "/job/1", {}),
        ("job/create/n1/backup", "/job/1", {"params": {}}),
        ("job/create/n1/backup", "/job/1", {"jobset": None, "props": {}}),
        ("job/progress/n1/backup", "/job/1", {"state": "run"}),
        ("job/progress/n1/backup", "/job/1", {"state": "run", "log": None}),
        ("job/progress/n1/backup", "/job/1", {"log": {"message": "m"}, "state": None}),
        ("job/redirect/n1", "/job/1", {"redirect": "n2", "jobset": 7}),
        ("job/finish/n1/backup", "/job/1", FINISH),
        ("job/finish/n1/backup", "/job/1", {**FINISH, "jobset": 7, "data": None}),
        ("job/clean/n1/backup", "/job/1", {"jobset": 7}),
        ("jobset/createJobSet/n1", "/jobset/7", {"jobs": [{"node": "n1", "type": "a"}]}),
        ("jobset/progressJobSet/n1", "/jobset/7", {"state": None, "progress": "1"}),
        ("jobset/finishJobSet/n1", "/jobset/7", {"jobs": []}),
        ("jobset/cleanJobSet/n1", "/jobset/7", {"jobs": [{"node": "n1", "type": "a", "state": "s", "success": "1"}]}),
        ("jobset/cleanJobSet/n1", "/jobset/7", {"jobs": [{**PLANNED, "state": "s", "success": None, "id": None}]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_an_event_written_by_hand_with_few_fields_folds(event_type: str, key: str, data: Json, is_first: bool) -> None:
    """Whatever is read as an event of the vocabulary can be folded into the job and the set that it is about."""
    before = [] if is_first else [create(1, 7), {"event": "createJobSet", **JOBSET, "jobs": [PLANNED] * 2}]
    events = events_of([*map(job.new_event, before), raw(event_type, key, data), job.new_event(finish(1, 7))])
    for collection, path in (("job", "/1"), ("jobset", "/7")):
        ref, state = ObjectRef(collection, path), None
        own = [event for event in events if ref in job.objects_of(event.stored)]
        for event in own:
            state = vocabularies.fold(collection, state, event)
        assert state == vocabularies.whole(collection, own)


@pytest.mark.parametrize("key", ["/job/117", "/jobset/117", "/job/0", f"/job/{2**53 - 1}"])
def test_an_event_is_found_by_its_key(key: str) -> None:
    _, root, number = key.split("/")
    own = {**(create(int(number)) if root == "job" else EVENTS["createJobSet"]), "id": int(number)}
    (event,) = events_of([job.new_event(own)])
    assert (event.stored.key, job.refs_of_key(key)) == (key, job.objects_of(event.stored))


def test_a_job_of_a_set_is_about_both() -> None:
    (event,) = events_of([job.new_event({"event": "create", **JOB})])
    assert job.objects_of(event.stored) == (ObjectRef("job", "/117"), ObjectRef("jobset", "/7"))


def test_folding_leaves_the_state_that_was_as_it_was() -> None:
    own = [create(1), progress(1, log=LOG), of_job("redirect", 1, redirect="n2"), finish(1)]
    state: State | None = None
    for event in events_of([job.new_event(one) for one in own]):
        before = copy.deepcopy(state)
        after = vocabularies.fold("job", state, event)
        assert state == before
        state = after


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("field", ["params", "props", "state", "progress", "data", "result", "logs"])
def test_what_is_large_is_left_out_of_the_stored_state_and_never_of_the_whole(field: str, size: int) -> None:
    text = "x" * size
    given: dict[str, list[Json]] = {
        "params": [create(1, params={"a": text})],
        "props": [create(1, props={"a": text})],
        "state": [create(1), progress(1, state=text)],
        "progress": [create(1), progress(1, progress=text)],
        "data": [create(1), progress(1, state="s", data={"text": text})],
        "result": [create(1), finish(1, data={"text": text})],
        "logs": [create(1), progress(1, log={**LOG, "message": text})],
    }
    stored, all_of_it = folded(given[field]), whole(given[field])
    assert stored is not None
    assert all_of_it is not None
    is_small = len(to_json(all_of_it[field])) <= MOST_BYTES
    remembered = {} if is_small or field != "result" else {"success": "1"}
    assert stored == {**all_of_it, field: all_of_it[field] if is_small else None, **remembered}
    assert job.is_whole(stored) is is_small
    assert text in to_json(all_of_it[field]).decode()


def test_a_job_with_all_that_is_just_small_enough_is_stored_whole() -> None:
    text = "x" * (MOST_BYTES - 100)
    own = [
        create(1, params={"a": text}, props={"a": text}, node="n" * 400, type="t" * 400),
        progress(1, log={**LOG, "message": text}),
        progress(1, state=text, progress=text, data={"text": text}),
        *(of_job("redirect", 1, redirect="n" * 300) for _ in range(2)),
        finish(1, data={"text": text}),
    ]
    stored = folded(own)
    assert stored == whole(own)
    assert len(to_json(stored)) <= MOST_STATE_BYTES


@pytest.mark.parametrize("n", [0, 1, 999, 1_000, 1_001, 5_000])
def test_all_lines_of_a_log_are_told_however_many_they_are(n: int) -> None:
    own = [create(1), *(progress(1, log={**LOG, "message": str(line)}) for line in range(n))]
    events = [event for start in range(0, n + 1, 1000) for event in events_of(map_new(own[start : start + 1000]))]
    found = vocabularies.whole("job", events)
    assert found is not None
    assert ([line["message"] for line in found["logs"]], found["logCount"]) == ([*map(str, range(n))], n)


def map_new(own: Sequence[Json]) -> list[NewEvent]:
    """The core events."""
    return [job.new_event(one) for one in own]


text = st.sampled_from(["x" * size for size in SIZES])
told = st.one_of(
    st.builds(lambda params: create(1, params={"a": params}), text),
    st.builds(lambda state: progress(1, state=state), text),
    st.builds(lambda words: progress(1, progress=words, data={"text": words}), text),
    st.builds(lambda message: progress(1, log={**LOG, "message": message}, data=DATA), text),
    st.builds(lambda node: of_job("redirect", 1, redirect=node), st.sampled_from(["n1", "n2", "n" * 500])),
    st.builds(lambda message: {**finish(1), "message": message}, text),
    st.just(of_job("clean", 1)),
)


@given(st.lists(told, max_size=12))
def test_what_is_stored_event_by_event_is_what_all_events_say(own: list[Json]) -> None:
    own = [create(1, props={"a": "b"}), *own]
    stored, all_of_it = folded(own), whole(own)
    assert stored is not None
    assert all_of_it is not None
    assert without(dict(stored), "success") == kept(stored, all_of_it)
    assert len(to_json(stored)) <= MOST_STATE_BYTES
    if job.is_whole(stored):
        assert stored == all_of_it
