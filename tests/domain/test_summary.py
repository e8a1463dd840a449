"""Summaries of objects, by collection."""

from collections.abc import Sequence
from typing import Any

import pytest

from chalicelib.domain import timestamps, vocabularies
from chalicelib.domain.events.event import Event, NewEvent, encode
from chalicelib.domain.events.ids import Id
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.objects.summary import MAX_TEXT_LENGTH, ObjectSummary, parse_progress, truncate
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.vocabularies import VOCABULARIES
from tests.conformance.anyjob.anyjob import (
    create,
    create_set,
    finish,
    finish_set,
    finished_job,
    job_event,
    planned_job,
    progress,
)
from tests.conformance.push.push_client import push_event

Json = dict[str, Any]

AT = 1_478_257_656_000_000
TIMES = [timestamps.iso(AT + n) for n in range(10)]
START = TIMES[0]
"""All events of a commit have the time of its first event, but increasing EventIds."""
LARGE = {"text": "x" * 3_000}


def summary(vocabulary: str, ref: ObjectRef, native: Sequence[Json]) -> ObjectSummary | None:
    """The object's summary after a commit with these events."""
    new: list[NewEvent] = [VOCABULARIES[vocabulary].new_event(item) for item in native]
    events = [Event(Id(1, 1, n), AT + n - 1, AT, encode(event).decode()) for n, event in enumerate(new, start=1)]
    object_events = [event for event in events if ref in vocabularies.affected_objects(event.fields)]
    state = ObjectView().fold(ref.collection, object_events).state
    return None if state is None else vocabularies.summarize(ref, state)


def job(state: str, to: int = 0, **more: Any) -> ObjectSummary:
    """Job 1, last updated by the event at index `to`."""
    label = more.pop("label", "backup on n1")
    facets = {"type": "backup", "node": label.removeprefix("backup on ")}
    return ObjectSummary("/1", "/job/1", state, label, created_at=START, updated_at=TIMES[to], **facets, **more)


@pytest.mark.parametrize(
    ("author", "expected"),
    [("anna", "anna"), ("a" * 300, "a" * 199 + "…"), (None, None)],
    ids=["short", "long", "none"],
)
def test_job_summary_author_is_property(author: str | None, expected: str | None) -> None:
    props = {} if author is None else {"author": author}
    assert summary("job", ObjectRef("job", "/1"), [create(1, props=props)]) == job("created", author=expected)


def jobset(state: str, to: int, label: str = "2 jobs of n1", **more: Any) -> ObjectSummary:
    node = label.rpartition(" ")[2]
    return ObjectSummary("/7", "/jobset/7", state, label, created_at=START, updated_at=TIMES[to], node=node, **more)


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        ([progress(1)], None),
        ([create(1)], job("created")),
        ([create(1, 7)], job("created", parent="/jobset/7")),
        ([create(1), progress(1, state="copy", progress="1/4")], job("copy", 1, progress=0.25)),
        ([create(1), progress(1, progress="soon")], job("created", 1)),
        ([create(1), progress(1, state="s" * 1_000)], job("s" * 199 + "…", 1)),
        ([create(1), progress(1, state="s" * 3_000)], job("…", 1)),
        ([create(1), job_event("redirect", 1, redirect="n2")], job("created", 1, label="backup on n2")),
        ([create(1), progress(1, progress="1/4"), finish(1)], job("finished", 2, result="success")),
        ([create(1), finish(1, success="0")], job("finished", 1, result="failure")),
        ([create(1), finish(1, success="0", data=LARGE)], job("finished", 1, result="failure")),
        ([create(1), finish(1, data=LARGE), finish(1, success="0")], job("finished", 2, result="failure")),
        ([create(1), job_event("clean", 1)], job("cleaned", 1, result="timeout")),
    ],
)
def test_job_summary_label_is_type_and_node(native: list[Json], expected: ObjectSummary | None) -> None:
    assert summary("job", ObjectRef("job", "/1"), native) == expected


SET = {"node": "n1", "id": 7, "props": {}}
TWO = create_set(7, 2)
MANY = create_set(7, [planned_job(a="x" * 200)] * 20)
"""More jobs than a stored state contains."""


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        ([TWO], jobset("created", 0, progress=0.0)),
        ([create_set(7, 1)], jobset("created", 0, "1 job of n1", progress=0.0)),
        ([create(1, 7)], jobset("created", 0, "jobs of n1")),
        ([TWO, create(1, 7), finish(1, 7)], jobset("created", 2, progress=0.5)),
        ([TWO, {**SET, "event": "progressJobSet", "progress": "90%"}], jobset("created", 1, progress=0.9)),
        ([TWO, finish_set(7, 1, 2)], jobset("finished", 1, result="success")),
        (
            [TWO, finish_set(7, jobs=[finished_job(1), finished_job(2, success="0")])],
            jobset("finished", 1, result="failure"),
        ),
        ([TWO, {**SET, "event": "cleanJobSet", "jobs": []}], jobset("cleaned", 1)),
        ([MANY, create(1, 7), finish(1, 7)], jobset("created", 2, "20 jobs of n1", progress=0.05)),
        ([MANY, finish(1, 7), finish_set(7)], jobset("finished", 2, "20 jobs of n1", result="success")),
        ([MANY, finish(1, 7, success="0"), finish_set(7)], jobset("finished", 2, "20 jobs of n1", result="failure")),
    ],
)
def test_jobset_summary_label_is_number_of_jobs(native: list[Json], expected: ObjectSummary) -> None:
    assert summary("job", ObjectRef("jobset", "/7"), native) == expected


def push(state: str, to: int, **more: Any) -> ObjectSummary:
    known = {"created_at": START, "updated_at": TIMES[to], "author": "anna", **more}
    return ObjectSummary("/j", "/push/j", state, "chef-client", **known)


RAN = ["quorum_succeeded", "run_start n1", "run_complete n1 success"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["start 2"], push("voting", 0)),
        (["start 2", "quorum_vote n1 success"], push("voting", 1)),
        (["start 2", "quorum_vote n1 success", "quorum_succeeded"], push("running", 2, progress=0.0)),
        (["start 2", "quorum_succeeded", "run_start n1", "run_complete n1 failure"], push("running", 3, progress=0.5)),
        (["start 1", "job_complete quorum_failed"], push("quorum_failed", 1, result="failure")),
        (["start 1", "quorum_succeeded", "job_complete complete"], push("complete", 2, result="success")),
        (["start 2", "quorum_vote n2 failure", *RAN, "job_complete complete"], push("complete", 5, result="failure")),
        (["start 2", *RAN, "run_complete n2 failure", "job_complete complete"], push("complete", 5, result="failure")),
    ],
)
def test_push_job_summary_label_is_command(texts: list[str], expected: ObjectSummary) -> None:
    assert summary("push", ObjectRef("pushJob", "/j"), [push_event(text, "j") for text in texts]) == expected


@pytest.mark.parametrize(("status", "result"), [("success", "success"), ("failure", "failure")])
def test_push_job_with_omitted_nodes_has_result(status: str, result: str) -> None:
    names = [f"{n:04}" * 5 for n in range(100)]
    ran = [f"run_complete {name} {status if name == names[-1] else 'success'}" for name in names]
    texts = ["start 100", "quorum_succeeded", *ran, "job_complete complete"]
    found = summary("push", ObjectRef("pushJob", "/j"), [push_event(text, "j") for text in texts])
    assert found is not None
    assert found.result == result


ORDER = {"key": "/a/chain,1"}
STEP = [{"TYPE": "OrderStarted", **ORDER}, {"TYPE": "OrderStepStarted", **ORDER, "nodeId": "A", "taskId": "9"}]
ERROR = {"TYPE": "OrderStepEnded", **ORDER, "nodeTransition": {"TYPE": "Error", "returnCode": 1}}
SUCCESS = {"TYPE": "OrderStepEnded", **ORDER, "nodeTransition": {"TYPE": "Success"}}
FINISHED = {"TYPE": "OrderFinished", **ORDER, "nodeId": "A"}


def order(state: str, **more: Any) -> ObjectSummary:
    return ObjectSummary(
        "/a/chain,1",
        "/a/chain,1",
        state,
        "1 at A",
        updated_at=START,
        parent="/a/chain",
        type="AdHoc",
        node="A",
        **more,
    )


TASK = {"key": {"jobPath": "/a/job", "taskId": "9"}}


@pytest.mark.parametrize(
    ("collection", "native", "expected"),
    [
        (
            "order",
            [{"TYPE": "OrderAdded", **ORDER, "nodeId": "A"}],
            ObjectSummary(
                "/a/chain,1", "/a/chain,1", "NotPlanned", "1 at A", parent="/a/chain", type="AdHoc", node="A"
            ),
        ),
        (
            "order",
            [{"TYPE": "OrderStepStarted", **ORDER, "nodeId": "A", "taskId": "9"}],
            order("InTaskProcess"),
        ),
        (
            "order",
            [{"TYPE": "OrderStarted", **ORDER}, {"TYPE": "OrderSuspended", **ORDER}],
            ObjectSummary(
                "/a/chain,1", "/a/chain,1", "Suspended", "1", updated_at=START, parent="/a/chain", type="AdHoc"
            ),
        ),
        ("order", [{"TYPE": "OrderAdded", **ORDER, "nodeId": "A"}, {"TYPE": "OrderRemoved", **ORDER}], None),
        ("order", [*STEP, ERROR, FINISHED], order("NotPlanned", result="failure")),
        ("order", [*STEP, ERROR, *STEP, SUCCESS, FINISHED], order("NotPlanned", result="success")),
        ("order", [*STEP, ERROR, FINISHED, {"TYPE": "OrderStarted", **ORDER}], order("WaitingForResource")),
        (
            "task",
            [{"TYPE": "TaskStarted", **TASK}],
            ObjectSummary("/a/job:9", "/a/job:9", "running", "task 9 of job", None, START, START, None, "/a/job"),
        ),
        (
            "task",
            [{"TYPE": "TaskStarted", **TASK}, {"TYPE": "TaskEnded", **TASK, "returnCode": 0}],
            ObjectSummary("/a/job:9", "/a/job:9", "ended", "task 9 of job", "success", START, START, None, "/a/job"),
        ),
        (
            "task",
            [{"TYPE": "TaskEnded", **TASK, "returnCode": 3}, {"TYPE": "TaskClosed", **TASK}],
            ObjectSummary("/a/job:9", "/a/job:9", "closed", "task 9 of job", "failure", None, START, None, "/a/job"),
        ),
        (
            "jobChain",
            [{"TYPE": "JobChainStateChanged", "key": "/a/chain", "state": "active"}],
            ObjectSummary("/a/chain", "/a/chain", "active", "chain"),
        ),
        (
            "jobChain",
            [{"TYPE": "JobChainNodeActionChanged", "key": "/a/chain", "nodeId": "A", "action": "stop"}],
            ObjectSummary("/a/chain", "/a/chain", "unknown", "chain"),
        ),
        (
            "schedulerJob",
            [{"TYPE": "FileBasedActivated", "key": "Job:/a/job"}],
            ObjectSummary("/a/job", "/a/job", "active", "job"),
        ),
        (
            "schedulerJob",
            [{"TYPE": "JobStateChanged", "key": "/a/job", "state": "stopped"}],
            ObjectSummary("/a/job", "/a/job", "stopped", "job"),
        ),
        (
            "fileBased",
            [{"TYPE": "FileBasedAdded", "key": "Job:/a/job"}],
            ObjectSummary("/a/job:Job", "Job:/a/job", "loaded", "Job job"),
        ),
        (
            "scheduler",
            [{"TYPE": "SchedulerInitiated"}],
            ObjectSummary("/scheduler", None, "starting", "scheduler", created_at=START, updated_at=START),
        ),
        (
            "scheduler",
            [{"TYPE": "SchedulerStateChanged", "state": "running"}],
            ObjectSummary("/scheduler", None, "running", "scheduler"),
        ),
    ],
)
def test_jobscheduler_summary_label_is_name(
    collection: str, native: list[Json], expected: ObjectSummary | None
) -> None:
    paths = {"order": "/a/chain,1", "task": "/a/job:9", "jobChain": "/a/chain", "schedulerJob": "/a/job",
             "fileBased": "/a/job:Job", "scheduler": "/scheduler"}  # fmt: skip
    assert summary("scheduler", ObjectRef(collection, paths[collection]), native) == expected


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        ("66%", 0.66),
        ("66.5 %", 0.665),
        ("150%", 1.0),
        ("1/2", 0.5),
        ("3 / 2", 1.0),
        ("0/0", None),
        ("0.4", 0.4),
        ("1", 1.0),
        ("0", 0.0),
        ("1.5", 1.0),
        ("40", None),
        ("-1/2", None),
        ("half", None),
        ("", None),
        (None, None),
        ("٣/٤", None),
    ],
)
def test_parse_progress_accepts_percent_and_ratio(progress: str | None, expected: float | None) -> None:
    assert parse_progress(progress) == expected


def test_truncate_shortens_only_long_texts() -> None:
    exact = "x" * MAX_TEXT_LENGTH
    assert (truncate("a"), truncate(exact), truncate(f"{exact}x"), truncate(None)) == (
        "a",
        exact,
        f"{exact[:-1]}…",
        "…",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", True), ("/1", True), ("BACKUP", True), ("1 backup", True), ("on n", True), ("created", False), ("n2", False)],
)
def test_contains_text_searches_path_and_label(text: str, expected: bool) -> None:
    assert job("created").contains_text(text) is expected
