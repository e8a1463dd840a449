"""AnyJob's events, and the stored and full states of jobs."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import next_commit
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.objects import MAX_FIELD_BYTES
from tests.conformance.anyjob.anyjob import (
    DATA,
    EVENTS,
    JOBSET,
    LOG,
    PLANNED_JOB,
    Json,
    create,
    finish,
    job_event,
    progress,
    without,
)

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
SIZES = (0, 1, MAX_FIELD_BYTES // 2, MAX_FIELD_BYTES - 2, MAX_FIELD_BYTES - 1, 20_000)
"""Sizes of texts below and above the limit of a stored field."""

MAX_STATE_BYTES = 24 * 1024
"""Stored states of jobs and sets are smaller than this."""


def commit_events(new: Sequence[NewEvent]) -> tuple[Event, ...]:
    """The events of one commit."""
    return next_commit(Head(1), Append(1, encode_within_limits(new), "r"), NOW_MS).events


def affected(event: Event) -> tuple[ObjectRef, ...]:
    return JOB_VOCABULARY.affected_objects(event.fields)


def core_event(event_type: str, key: str | None, data: Any, source_s: int | None = None) -> NewEvent:
    """A core event under a type of the vocabulary."""
    source_timestamp = None if source_s is None else {"s": source_s, "us": 0}
    payload = {"type": "json", "data": data}
    event = {"type": event_type.split("/"), "key": key, "payload": payload, "sourceTimestamp": source_timestamp}
    return NewEvent.model_validate(event)


def stored_state(native: Sequence[Json], collection: str = "job", path: str = "/1") -> State | None:
    """The stored state after these events. It is written to JSON and read back after each event, like a record."""
    state: State | None = None
    for event in commit_events([JOB_VOCABULARY.new_event(item) for item in native]):
        if ObjectRef(collection, path) in JOB_VOCABULARY.affected_objects(event.fields):
            state = vocabularies.fold(collection, from_json(to_json(state)), event)
    return state


def full_state(native: Sequence[Json], collection: str = "job", path: str = "/1") -> State | None:
    events = commit_events([JOB_VOCABULARY.new_event(item) for item in native])
    ref = ObjectRef(collection, path)
    return vocabularies.full_state(
        collection, [event for event in events if ref in JOB_VOCABULARY.affected_objects(event.fields)]
    )


def omit_large_fields(stored: State, full: State) -> State:
    """The full state without the fields that the stored state omits."""
    omitted = {name for name, value in stored.items() if value is None} | {"ended", "failures", "failed"}
    return {name: stored[name] if name in omitted else value for name, value in full.items()}


@pytest.mark.parametrize("name", EVENTS)
def test_native_json_returns_event_with_commit_time(name: str) -> None:
    _, second = commit_events(
        [JOB_VOCABULARY.new_event(create(5)), JOB_VOCABULARY.new_event({**EVENTS[name], "time": 7})]
    )
    assert JOB_VOCABULARY.native_json(second) == {"eventId": NOW_MS * 1000 + 1, "time": NOW_S, **EVENTS[name]}
    assert second.fields.source_timestamp == 7_000_000


@pytest.mark.parametrize("name", EVENTS)
def test_native_json_fills_defaults_of_missing_fields(name: str) -> None:
    """Missing maps become empty and optional fields stay missing, also in events published as core events."""
    native = without(EVENTS[name], "params", "props", "jobset", "data")
    (event,) = commit_events([JOB_VOCABULARY.new_event(native)])
    fields = without(native, "event", "node", "id", "type")
    (core,) = commit_events([core_event("/".join(event.fields.type), event.fields.key, fields)])
    empty: Json = {"props": {}} if "JobSet" in name else {} if name == "redirect" else {"params": {}, "props": {}}
    assert (
        JOB_VOCABULARY.native_json(event)
        == JOB_VOCABULARY.native_json(core)
        == {"eventId": NOW_MS * 1000, "time": NOW_S, **native, **empty}
    )


def test_native_json_log_without_time_gets_event_time() -> None:
    (event,) = commit_events([JOB_VOCABULARY.new_event(progress(1, log={"message": "hello"}))])
    native = JOB_VOCABULARY.native_json(event)
    assert native is not None
    assert native["log"] == {"time": NOW_S, "message": "hello", "level": 0, "tag": ""}


def test_native_json_ignores_time_in_core_event() -> None:
    (event,) = commit_events(
        [core_event("job/create/n1/backup", "/job/1", {"time": 7, "params": {}, "props": {}}, source_s=5)]
    )
    native = JOB_VOCABULARY.native_json(event)
    assert native is None or native["time"] == NOW_S


FINISH = {"success": "1", "message": "m"}
INVALID_EVENTS = {
    "no payload": NewEvent(type=("job", "create", "n1", "backup"), key="/job/1"),
    "no key": core_event("job/create/n1/backup", None, {}),
    "a key with a leading zero": core_event("job/create/n1/backup", "/job/01", {}),
    "a key of a set": core_event("job/create/n1/backup", "/jobset/1", {}),
    "a key with a number too large": core_event("job/create/n1/backup", "/job/9999999999999999", {}),
    "a key with non-ASCII digits": core_event("job/create/n1/backup", "/job/\u0661", {}),
    "a type too short": core_event("job/create/n1", "/job/1", {}),
    "a type too long": core_event("job/create/n1/backup/more", "/job/1", {}),
    "a redirect with a type": core_event("job/redirect/n1/backup", "/job/1", {"redirect": "n2"}),
    "an unknown event": core_event("job/cancel/n1/backup", "/job/1", {}),
    "an event of a set": core_event("job/createJobSet/n1", "/job/1", {"jobs": []}),
    "only the first subtype": core_event("job", "/job/1", {}),
    "a list": core_event("job/create/n1/backup", "/job/1", []),
    "null": core_event("job/create/n1/backup", "/job/1", None),
    "an unknown field": core_event("job/create/n1/backup", "/job/1", {"unknown": 1}),
    "the node twice": core_event("job/create/n1/backup", "/job/1", {"node": "n2"}),
    "the event twice": core_event("job/finish/n1/backup", "/job/1", {"event": "finish", **FINISH}),
    "a jobset that is true": core_event("job/create/n1/backup", "/job/1", {"jobset": True}),
    "a jobset too large": core_event("job/create/n1/backup", "/job/1", {"jobset": 2**60}),
    "success that is a number": core_event("job/finish/n1/backup", "/job/1", {**FINISH, "success": 1}),
    "progress without content": core_event("job/progress/n1/backup", "/job/1", {}),
}


@pytest.mark.parametrize("name", INVALID_EVENTS)
def test_fold_invalid_event_changes_no_job(name: str) -> None:
    (before, event) = commit_events([JOB_VOCABULARY.new_event(create(1, 7)), INVALID_EVENTS[name]])
    state = vocabularies.fold("job", None, before)
    assert JOB_VOCABULARY.native_json(event) is None
    assert (vocabularies.fold("job", state, event), vocabularies.fold("job", None, event)) == (state, None)
    assert vocabularies.affected_objects(event.fields) is not None


def test_fold_event_with_empty_names_succeeds() -> None:
    """Such events are no longer accepted, but logs may have some."""
    stored = [
        core_event("jobset/createJobSet/", "/jobset/7", {"jobs": [{"node": "", "type": ""}]}),
        core_event("job/create//", "/job/1", {"jobset": 7}),
        core_event("job/redirect/", "/job/1", {"redirect": ""}),
        core_event("job/finish//", "/job/1", {"jobset": 7, **FINISH}),
    ]
    events = commit_events(stored)
    states = {
        collection: vocabularies.full_state(
            collection,
            [event for event in events if collection in {ref.collection for ref in affected(event)}],
        )
        for collection in ("job", "jobset")
    }
    job, jobset = states["job"], states["jobset"]
    assert job is not None
    assert jobset is not None
    assert (job["node"], job["type"], job["state"]) == ("", "", "finished")
    assert (jobset["node"], jobset["total"], jobset["finished"]) == ("", 1, 1)


@pytest.mark.parametrize("field", ["node", "type"])
def test_new_event_with_empty_name_is_refused(field: str) -> None:
    with pytest.raises(ValidationError, match="String should have at least 1 character"):
        JOB_VOCABULARY.new_event({**create(1), field: ""})


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
def test_native_json_null_equals_missing_field(name: str, field: str) -> None:
    native = {**EVENTS[name], **({"state": "s"} if field == "log" else {}), field: None}
    (event,) = commit_events([JOB_VOCABULARY.new_event(native)])
    fields = without(native, "event", "node", "id", *(() if name == "redirect" else ("type",)))
    (core,) = commit_events([core_event("/".join(event.fields.type), event.fields.key, fields)])
    result = JOB_VOCABULARY.native_json(core)
    assert result == JOB_VOCABULARY.native_json(event)
    assert result is not None
    assert field not in result


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
        ("jobset/cleanJobSet/n1", "/jobset/7", {"jobs": [{**PLANNED_JOB, "state": "s", "success": None, "id": None}]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_fold_core_event_with_few_fields_succeeds(event_type: str, key: str, data: Json, is_first: bool) -> None:
    """Every event that follows the vocabulary can be folded into its job and set."""
    before = [] if is_first else [create(1, 7), {"event": "createJobSet", **JOBSET, "jobs": [PLANNED_JOB] * 2}]
    events = commit_events(
        [
            *map(JOB_VOCABULARY.new_event, before),
            core_event(event_type, key, data),
            JOB_VOCABULARY.new_event(finish(1, 7)),
        ]
    )
    for collection, path in (("job", "/1"), ("jobset", "/7")):
        ref, state = ObjectRef(collection, path), None
        native = [event for event in events if ref in JOB_VOCABULARY.affected_objects(event.fields)]
        for event in native:
            state = vocabularies.fold(collection, state, event)
        assert state == vocabularies.full_state(collection, native)


@pytest.mark.parametrize("key", ["/job/117", "/jobset/117", "/job/0", f"/job/{2**53 - 1}"])
def test_objects_with_key_equals_affected_objects(key: str) -> None:
    _, root, number = key.split("/")
    native = {**(create(int(number)) if root == "job" else EVENTS["createJobSet"]), "id": int(number)}
    (event,) = commit_events([JOB_VOCABULARY.new_event(native)])
    affected_by_key = tuple(ref for ref in affected(event) if ref.collection != "jobType")
    assert (event.fields.key, JOB_VOCABULARY.objects_with_key(key)) == (key, affected_by_key)


@pytest.mark.parametrize("name", ["create", "finish", "clean"])
def test_affected_objects_include_job_its_set_and_its_type(name: str) -> None:
    (event,) = commit_events([JOB_VOCABULARY.new_event(EVENTS[name])])
    assert affected(event) == (ObjectRef("job", "/117"), ObjectRef("jobset", "/7"), ObjectRef("jobType", "/backup"))


@pytest.mark.parametrize("name", ["progress", "redirect"])
def test_affected_objects_of_open_run_leave_out_its_type(name: str) -> None:
    (event,) = commit_events([JOB_VOCABULARY.new_event(EVENTS[name])])
    assert affected(event) == (ObjectRef("job", "/117"), ObjectRef("jobset", "/7"))


def test_fold_does_not_change_previous_state() -> None:
    native = [create(1), progress(1, log=LOG), job_event("redirect", 1, redirect="n2"), finish(1)]
    state: State | None = None
    for event in commit_events([JOB_VOCABULARY.new_event(item) for item in native]):
        before = copy.deepcopy(state)
        after = vocabularies.fold("job", state, event)
        assert state == before
        state = after


FIRST_RUN = [
    create(1, 7, params={"a": "1"}, props={"author": "anna"}),
    job_event("redirect", 1, 7, redirect="n2"),
    progress(1, 7, state="run", progress="50%", log=LOG, data=DATA),
]


@pytest.mark.parametrize(
    "end", [finish(1, 7, success="0", data=DATA), job_event("clean", 1, 7)], ids=["finish", "clean"]
)
def test_fold_create_after_end_begins_new_run(end: Json) -> None:
    second = [create(1, type="restore", node="n3", params={"b": "2"}), progress(1, type="restore", log=LOG)]
    state, alone = stored_state([*FIRST_RUN, end, *second]), stored_state(second)
    assert state is not None
    assert alone is not None
    times = {"createdAt": "2023-11-14T22:13:20.000004Z", "updatedAt": "2023-11-14T22:13:20.000005Z"}
    assert state == full_state([*FIRST_RUN, end, *second]) == {**alone, **times, "run": 2}
    ended = stored_state([*FIRST_RUN, end, *second, finish(1, type="restore")])
    assert ended is not None
    assert (ended["seconds"], ended["result"]["success"], ended["logCount"]) == (2e-06, "1", 1)


@pytest.mark.parametrize(
    "end", [finish(1, 7, success="0", data=DATA), job_event("clean", 1, 7)], ids=["finish", "clean"]
)
def test_fold_progress_after_end_adds_only_its_log(end: Json) -> None:
    before, after = stored_state([*FIRST_RUN, end]), stored_state([*FIRST_RUN, end, *FIRST_RUN[2:]])
    assert before is not None
    assert after is not None
    assert after == {
        **before,
        "updatedAt": after["updatedAt"],
        "logCount": 2,
        "logs": [*before["logs"], *before["logs"]],
    }


def test_fold_create_of_open_run_is_a_repeat() -> None:
    before, after = stored_state(FIRST_RUN), stored_state([*FIRST_RUN, create(1, type="restore", params={"b": "2"})])
    assert before is not None
    assert after == {**before, "updatedAt": "2023-11-14T22:13:20.000003Z"}


def test_fold_create_after_large_run_has_no_gaps() -> None:
    large = [create(1, params={"a": "x" * 20_000}), finish(1, data={"text": "x" * 20_000})]
    state = stored_state([*large, create(1)])
    assert state is not None
    assert JOB_VOCABULARY.is_full_state(state)
    assert "success" not in state


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("field", ["params", "props", "state", "progress", "data", "result", "logs"])
def test_fold_omits_large_fields_from_stored_state_only(field: str, size: int) -> None:
    text = "x" * size
    events: dict[str, list[Json]] = {
        "params": [create(1, params={"a": text})],
        "props": [create(1, props={"a": text})],
        "state": [create(1), progress(1, state=text)],
        "progress": [create(1), progress(1, progress=text)],
        "data": [create(1), progress(1, state="s", data={"text": text})],
        "result": [create(1), finish(1, data={"text": text})],
        "logs": [create(1), progress(1, log={**LOG, "message": text})],
    }
    stored, full = stored_state(events[field]), full_state(events[field])
    assert stored is not None
    assert full is not None
    is_small = len(to_json(full[field])) <= MAX_FIELD_BYTES
    substitute = {} if is_small or field != "result" else {"success": "1"}
    assert stored == {**full, field: full[field] if is_small else None, **substitute}
    assert JOB_VOCABULARY.is_full_state(stored) is is_small
    assert text in to_json(full[field]).decode()


def test_fold_stores_full_state_below_field_limit() -> None:
    text = "x" * (MAX_FIELD_BYTES - 100)
    native = [
        create(1, params={"a": text}, props={"a": text}, node="n" * 400, type="t" * 400),
        progress(1, log={**LOG, "message": text}),
        progress(1, state=text, progress=text, data={"text": text}),
        *(job_event("redirect", 1, redirect="n" * 300) for _ in range(2)),
        finish(1, data={"text": text}),
    ]
    stored = stored_state(native)
    assert stored == full_state(native)
    assert len(to_json(stored)) <= MAX_STATE_BYTES


@pytest.mark.parametrize("n", [0, 1, 999, 1_000, 1_001, 5_000])
def test_full_state_has_all_log_lines(n: int) -> None:
    native = [create(1), *(progress(1, log={**LOG, "message": str(line)}) for line in range(n))]
    events = [
        event for start in range(0, n + 1, 1000) for event in commit_events(new_events(native[start : start + 1000]))
    ]
    state = vocabularies.full_state("job", events)
    assert state is not None
    assert ([line["message"] for line in state["logs"]], state["logCount"]) == ([*map(str, range(n))], n)


def new_events(native: Sequence[Json]) -> list[NewEvent]:
    return [JOB_VOCABULARY.new_event(item) for item in native]


text = st.sampled_from(["x" * size for size in SIZES])
job_events = st.one_of(
    st.builds(lambda params: create(1, params={"a": params}), text),
    st.builds(lambda state: progress(1, state=state), text),
    st.builds(lambda words: progress(1, progress=words, data={"text": words}), text),
    st.builds(lambda message: progress(1, log={**LOG, "message": message}, data=DATA), text),
    st.builds(lambda node: job_event("redirect", 1, redirect=node), st.sampled_from(["n1", "n2", "n" * 500])),
    st.builds(lambda message: {**finish(1), "message": message}, text),
    st.just(job_event("clean", 1)),
)


@given(st.lists(job_events, max_size=12))
def test_fold_event_by_event_agrees_with_full_state(native: list[Json]) -> None:
    native = [create(1, props={"a": "b"}), *native]
    stored, full = stored_state(native), full_state(native)
    assert stored is not None
    assert full is not None
    assert without(dict(stored), "success") == omit_large_fields(stored, full)
    assert len(to_json(stored)) <= MAX_STATE_BYTES
    if JOB_VOCABULARY.is_full_state(stored):
        assert stored == full
