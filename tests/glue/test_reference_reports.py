"""The reference implementation itself: its tables of small histories, computed by hand."""

import random
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.glue import reference_reports
from tests.glue.export_writer import FULL, INCREMENTAL, Commit, Export, commits_in_order, event_text, write_exports
from tests.glue.reference_reports import Row
from tests.glue.sample_histories import (
    BINARY,
    START_US,
    History,
    job_event,
    json_payload,
    month_history,
    order_event,
    push_event,
    set_event,
    split,
    split_histories,
)

DAY_1, DAY_2 = date(2024, 2, 27), date(2024, 2, 28)
_START = datetime(2024, 2, 27, tzinfo=UTC)

Tables = Mapping[str, list[Row]]
TimedEvent = tuple[str, str | list[str]]
"""A time such as `1 23:59:59`, meaning day 1, and the text of an event."""


def at(clock: str) -> datetime:
    day, _, time = clock.partition(" ")
    return datetime.fromisoformat(f"2024-02-26T{time}+00:00") + timedelta(days=int(day))


def us(clock: str) -> int:
    return START_US + (at(clock) - _START) // timedelta(microseconds=1)


def make_commits(events: Iterable[TimedEvent], server: int = 1) -> list[Commit]:
    return commits_in_order(server, [(us(clock), [text] if isinstance(text, str) else text) for clock, text in events])


def tables_of_exports(*exports: Export) -> Tables:
    with tempfile.TemporaryDirectory() as folder:
        write_exports(Path(folder), exports)
        return {name: reference_reports.rows(table) for name, table in reference_reports.tables(Path(folder)).items()}


def tables_of(*events: TimedEvent) -> Tables:
    return tables_of_exports(Export("one", FULL, tuple(make_commits(events))))


def job(name: str, number: int = 1, node: str = "n1", kind: str | None = "build", **data: Any) -> str:
    return job_event(name, f"/job/{number}", node, kind, **data)


def order(name: str, key: str = "/c,1", **data: Any) -> str:
    return order_event(f"Order{name}", key, **data)


def step_ended(outcome: str) -> str:
    return order("StepEnded", nodeTransition={"TYPE": outcome})


def push(name: str, number: str = "a", **data: Any) -> str:
    return push_event(name, f"/push/{number}", **data)


# Jobs.


def test_job_run_spans_creation_to_end() -> None:
    found = tables_of(
        ("1 10:00:00", job("create", kind="plan", jobset=7)),
        ("1 10:00:02", job("redirect", kind=None, redirect="n2")),
        ("1 10:00:03.5", [job("progress", node="n2", log={"message": "m"}), job("progress", node="n2", state="s")]),
        ("1 10:01:00", job("finish", node="n2", success="1")),
    )
    assert found["job_runs"] == [
        (1, DAY_1, 1, "build", "n2", 7, at("1 10:00:00"), at("1 10:01:00"), 60.0, 3.5, "success", 1, 2, 1, 5)
    ]


def test_job_run_is_on_day_of_first_event() -> None:
    found = tables_of(("1 23:59:59", job("create")), ("3 00:00:01", job("finish", success="0")))
    assert [row[1:3] + row[8:11] for row in found["job_runs"]] == [(DAY_1, 1, 86402.0, None, "failure")]
    assert [row[:3] + row[5:8] for row in found["job_statistics"] if row[2] == "day"] == [(1, DAY_1, "day", 1, 1, 0)]
    assert [row[1] for row in found["throughput"]] == [DAY_1, date(2024, 2, 29)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([("00", job("create"))], ("00", None, None, None, None, 1), id="not over"),
        pytest.param([("00", job("clean"))], (None, "00", None, None, "timeout", 1), id="no start"),
        pytest.param([("00", job("progress"))], (None, None, None, None, None, 1), id="only the middle"),
        pytest.param(
            [("00", job("create")), ("05", job("create")), ("06", job("finish", success="1"))],
            ("00", "06", 6.0, None, "success", 3),
            id="the first start counts",
        ),
        pytest.param(
            [("00", job("create")), ("05", job("finish", success="1")), ("09", job("clean"))],
            ("00", "09", 9.0, None, "timeout", 3),
            id="the last end counts",
        ),
        pytest.param(
            [("00", job("create")), ("05", job("clean")), ("07", job("progress")), ("09", job("progress"))],
            ("00", "05", 5.0, 7.0, "timeout", 4),
            id="it goes on after its end",
        ),
        pytest.param(
            [("00", job("progress")), ("01", job("finish", success="0")), ("04", job("create"))],
            ("04", "01", -3.0, -4.0, "failure", 3),
            id="events in reverse",
        ),
        pytest.param(
            [("00", job("create")), ("01", job("finish", success="1")), ("04", job("finish", success=1))],
            ("00", "01", 1.0, None, "success", 2),
            id="an invalid finish is ignored",
        ),
        pytest.param(
            [("00", [job("create"), job("finish", success="1"), job("finish", success="0")])],
            ("00", "00", 0.0, None, "failure", 3),
            id="all at once, the order decides",
        ),
    ],
)
def test_job_run_missing_values_are_null(events: list[TimedEvent], expected: Row) -> None:
    found = tables_of(*((f"1 10:00:{seconds}", text) for seconds, text in events))
    times = tuple(None if second is None else at(f"1 10:00:{second}") for second in expected[:2])
    assert [row[6:11] + row[14:] for row in found["job_runs"]] == [times + expected[2:]]


@pytest.mark.parametrize(
    ("first", "second_", "expected"),
    [
        ({}, {"jobset": 3}, 3),
        ({"jobset": 2}, {"jobset": 3}, 2),
        ({"jobset": "2"}, {"jobset": 3}, 3),
        ({"jobset": -2}, {"jobset": True}, None),
        ({"jobset": 0}, {}, 0),
    ],
)
def test_job_run_jobset_is_first_one_named(first: Any, second_: Any, expected: int | None) -> None:
    found = tables_of(("1 10:00:00", job("create", **first)), ("1 10:00:01", job("progress", **second_)))
    assert [row[5] for row in found["job_runs"]] == [expected]


@pytest.mark.parametrize(
    "key", ["/job/007", "/job/x", "/job/1\n", "/job/", "/job/12345678901234567", "/jobset/1", None]
)
def test_job_runs_ignore_invalid_keys(key: str | None) -> None:
    found = tables_of(("1 10:00:00", event_text(["job", "create", "n", "t"], key)))
    assert (found["job_runs"], len(found["throughput"])) == ([], 1)


@pytest.mark.parametrize(
    ("event_type", "payload", "expected"),
    [
        (("job", "create", "n", "t"), None, 1),
        (("job", "clean", "n", "t"), BINARY, 1),
        (("job", "create", "n"), None, 0),
        (("job", "create", "n", "t", "x"), None, 0),
        (("job", "redirect", "n"), json_payload({"redirect": "m"}), 1),
        (("job", "redirect", "n", "t"), json_payload({"redirect": "m"}), 0),
        (("job", "redirect", "n"), json_payload({"redirect": 1}), 0),
        (("job", "redirect", "n"), None, 0),
        (("job", "finish", "n", "t"), json_payload({"success": "1"}), 1),
        (("job", "finish", "n", "t"), json_payload({"success": True}), 0),
        (("job", "finish", "n", "t"), BINARY, 0),
        (("job", "explode", "n", "t"), None, 0),
        ((), None, 0),
    ],
)
def test_runs_ignore_invalid_types_and_payloads(event_type: tuple[str, ...], payload: Any, expected: int) -> None:
    found = tables_of(("1 10:00:00", event_text(event_type, "/job/1", payload)))
    assert len(found["job_runs"]) == expected
    assert [row[3:] for row in found["throughput"]] == [("/".join(event_type), 1)]


def test_job_statistics_by_day_type_and_node() -> None:
    ends = [("build", "n1", 1), ("build", "n2", 2), ("build", "n1", 3), ("build", "n1", 4)]
    starts = [job("create", number, node, kind) for number, (kind, node, _) in enumerate(ends)]
    events: list[TimedEvent] = [
        ("1 10:00:00", [*starts, job("create", 8, "n2", "test"), job("create", 9, "n2", "test")])
    ]
    events += [
        (f"1 10:00:0{seconds}", job("finish", number, node, kind, success="0" if seconds == 4 else "1"))
        for number, (kind, node, seconds) in enumerate(ends)
    ]
    found = tables_of(*events, ("1 12:00:00", job("clean", 8, "n2", "test")))["job_statistics"]
    assert all(row[:2] == (1, DAY_1) for row in found)
    assert [row[2:10] for row in found] == [
        ("day", None, None, 6, 5, 3, 1, 1),
        ("node", None, "n1", 3, 3, 2, 1, 0),
        ("node", None, "n2", 3, 2, 1, 0, 1),
        ("type", "build", None, 4, 4, 3, 1, 0),
        ("type", "test", None, 2, 1, 0, 0, 1),
        ("type and node", "build", "n1", 3, 3, 2, 1, 0),
        ("type and node", "build", "n2", 1, 1, 1, 0, 0),
        ("type and node", "test", "n2", 2, 1, 0, 0, 1),
    ]
    # 1, 2, 3, 4: excludes the job that was cleaned after two hours.
    assert found[0][10:] == pytest.approx((0.6, 2.5, 3.7, 3.97, 2.5, 4.0))
    assert found[1][10:] == pytest.approx((2 / 3, 3.0, 3.8, 3.98, 8 / 3, 4.0))
    assert found[4][10:] == (0.0, None, None, None, None, None)


def test_job_statistics_without_ended_runs_have_no_rate() -> None:
    found = tables_of(("1 10:00:00", job("redirect", kind=None, redirect="n2")))["job_statistics"]
    nothing = (1, 0, 0, 0, 0, *(None,) * 6)
    assert [row[2:] for row in found] == [
        ("day", None, None, *nothing),
        ("node", None, "n2", *nothing),
        ("type", None, None, *nothing),
        ("type and node", None, "n2", *nothing),
    ]


def test_events_past_midnight_have_time_of_commit() -> None:
    found = tables_of(("1 23:59:59.999999", [job("create", n) for n in range(3)]), ("2 00:00:00", job("create", 3)))
    assert found["throughput"] == [
        (1, DAY_1, at("1 23:00:00"), "job/create/n1/build", 3),
        (1, DAY_2, at("2 00:00:00"), "job/create/n1/build", 1),
    ]
    assert [row[1:3] for row in found["job_runs"]] == [(DAY_1, 0), (DAY_1, 1), (DAY_1, 2), (DAY_2, 3)]


# Job sets.


def test_jobset_counts_jobs_that_name_it() -> None:
    found = tables_of(
        ("1 23:59:00", set_event("createJobSet", "/jobset/5", "s", jobs=[{}, {}, {}, {}])),
        ("1 23:59:10", [job("create", number, jobset=5) for number in (1, 2, 3, 4)]),
        (
            "1 23:59:15",
            [set_event("createJobSet", "/jobset/5", "t", jobs=[]), set_event("cleanJobSet", "/jobset/5", "s")],
        ),
        ("1 23:59:20", [job("finish", 1, success="1", jobset=5), job("finish", 2, success="0", jobset=5)]),
        ("1 23:59:30", job("finish", 3, success="1")),
        ("1 23:59:40", [job("finish", 4, success="1", jobset=5), job("clean", 4, jobset=5)]),
        ("2 00:01:00", set_event("finishJobSet", "/jobset/5", "s", jobs=[])),
    )
    assert found["jobsets"] == [
        (1, DAY_1, 5, "s", at("1 23:59:00"), at("2 00:01:00"), 120.0, "complete", 4, 4, 1, 1, 1)
    ]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (job("create", jobset=5), [(DAY_1, 5, None, None, None, None, None, None, 1, 0, 0, 0)]),
        (job("progress", jobset=5), []),
        (job("finish", jobset=5), []),
        (
            set_event("cleanJobSet", "/jobset/5", "s"),
            [(DAY_1, 5, None, None, at("1 10:00:00"), None, "timeout", None, 0, 0, 0, 0)],
        ),
        (
            set_event("createJobSet", "/jobset/5", "s", jobs="all"),
            [(DAY_1, 5, "s", at("1 10:00:00"), None, None, None, 0, 0, 0, 0, 0)],
        ),
        (
            set_event("createJobSet", "/jobset/5", "s"),
            [(DAY_1, 5, "s", at("1 10:00:00"), None, None, None, 0, 0, 0, 0, 0)],
        ),
        (set_event("createJobSet", "/jobset/05", "s"), []),
    ],
)
def test_jobset_without_events_or_jobs(events: str, expected: list[Row]) -> None:
    assert [row[1:] for row in tables_of(("1 10:00:00", events))["jobsets"]] == expected


# Orders.


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["StepStarted", "Finished"], [(0, 2)]),
        (["Added", "Started", "Finished"], [(1, 3)]),
        (["Finished", "Added", "Started", "Finished"], [(0, 1), (1, 3)]),
        (["Added", "Added"], [(1, 1), (2, 1)]),
        (["Added", "Finished", "Started"], [(1, 2), (2, 1)]),
        (["Started", "Started", "Finished", "Removed", "Started"], [(1, 4), (2, 1)]),
        (["Started", "Added", "Started", "Started"], [(1, 1), (2, 3)]),
        (["Resumed", "Started"], [(0, 1), (1, 1)]),
    ],
)
def test_order_runs_are_numbered(names: list[str], expected: list[tuple[int, int]]) -> None:
    events: list[TimedEvent] = [(f"{day} 10:00:00", order(name)) for day, name in enumerate(names, start=1)]
    found = tables_of(*events)["order_runs"]
    first_days = [1 + sum(count for _, count in expected[:index]) for index in range(len(expected))]
    assert [(row[4], row[1]) for row in found] == [
        (run, DAY_1 + timedelta(days=day - 1)) for (run, _), day in zip(expected, first_days, strict=True)
    ]


def test_order_added_again_has_two_runs() -> None:
    found = tables_of(
        ("1 23:00:00", order("Added", nodeId="100")),
        ("1 23:00:10", order("Started")),
        ("1 23:00:11", order("StepStarted", nodeId="100", taskId="1")),
        ("1 23:00:15", [step_ended("Keep"), order("SetBack", nodeId="100")]),
        ("1 23:00:20", order("StepStarted", nodeId="100", taskId="2")),
        ("2 00:00:20", [step_ended("Success"), order("Finished", nodeId="end")]),
        ("2 01:00:00", order("Added")),
        ("2 01:00:05", [order("StepStarted", nodeId="200"), order("StepStarted", nodeId="200"), order("Suspended")]),
        ("2 01:00:06", [step_ended("Error"), step_ended("Success"), step_ended("Error")]),
        ("2 01:00:07", order("Finished")),
    )
    begun, again = at("1 23:00:10"), at("2 01:00:00")
    assert found["order_runs"] == [
        (1, DAY_1, "/c", "1", 1, at("1 23:00:00"), begun, at("2 00:00:20"), 3610.0, 10.0, 2, 1, 0, 0, "end", "success"),
        (1, DAY_2, "/c", "1", 2, again, None, at("2 01:00:07"), None, None, 2, 0, 1, 2, None, "failure"),
    ]
    assert found["order_steps"] == [
        (1, DAY_1, "/c", "1", 1, 1, "100", "1", at("1 23:00:11"), at("1 23:00:15"), 4.0, "keep"),
        (1, DAY_1, "/c", "1", 1, 2, "100", "2", at("1 23:00:20"), at("2 00:00:20"), 3600.0, "success"),
        (1, DAY_2, "/c", "1", 2, 1, "200", None, at("2 01:00:05"), None, None, None),
        (1, DAY_2, "/c", "1", 2, 2, "200", None, at("2 01:00:05"), at("2 01:00:06"), 1.0, "error"),
    ]
    assert [row[:12] for row in found["chain_nodes"]] == [
        (1, DAY_1, "/c", "100", 2, 2, 0, 1, 1802.0, pytest.approx(3240.4), pytest.approx(3564.04), 1802.0),
        (1, DAY_2, "/c", "200", 2, 1, 1, 0, 1.0, 1.0, 1.0, 1.0),
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [("/c,1,2", ("/c", "1,2")), ("ab,c", ("ab", "c")), ("/a\nb,\n", ("/a\nb", "\n"))]
    + [(key, None) for key in ("/c", "/,1", "/c,", ",", "😀,1", None)],
)
def test_order_key_is_chain_and_id(key: str | None, expected: tuple[str, str] | None) -> None:
    found = tables_of(("1 10:00:00", order_event("OrderSetBack", key)))
    assert [row[2:4] for row in found["order_runs"]] == ([] if expected is None else [expected])
    assert [row[3:8] for row in found["chain_nodes"]] == ([] if expected is None else [(None, 0, 0, 0, 1)])


def test_order_finished_twice_ends_with_second() -> None:
    found = tables_of(
        ("1 10:00:00", order("Started")),
        ("1 10:00:01", [order("Started"), order("Finished", nodeId="end")]),
        ("1 10:00:02", order("Finished")),
    )
    assert [(row[8], *row[14:]) for row in found["order_runs"]] == [(2.0, None, "success")]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([step_ended("Error")], None),
        ([order("Finished")], "success"),
        ([step_ended("Error"), order("Finished")], "failure"),
        ([step_ended("Error"), step_ended("Success"), order("Finished")], "success"),
        ([step_ended("Error"), order("StepEnded"), order("Finished")], "success"),
        ([order("Finished"), step_ended("Error")], "failure"),
    ],
)
def test_order_fails_if_last_step_fails(events: list[str], expected: str | None) -> None:
    assert [row[-1] for row in tables_of(("1 10:00:00", events))["order_runs"]] == [expected]


# Push jobs.


def test_push_run_has_its_nodes() -> None:
    found = tables_of(
        ("1 23:59:50", push("start", command="ls", node_count=3, quorum=2)),
        (
            "1 23:59:51",
            [push("quorum_vote", node="w1", status="success"), push("quorum_vote", node="w2", status="down")],
        ),
        ("1 23:59:52", [push("quorum_vote", node="w3", status="failure"), push("rehab", node="w2")]),
        ("1 23:59:53", [push("quorum_vote", node="w4", status="success"), push("quorum_succeeded")]),
        ("1 23:59:54", [push("run_start", node="w1"), push("run_start", node="w4")]),
        ("1 23:59:55", [push("run_start", node="w1"), push("start", node_count=9), push("quorum_succeeded")]),
        ("2 00:00:04", push("run_complete", node="w1", status="failure")),
        ("2 00:00:14", [push("run_complete", node="w1", status="success"), push("run_complete", node="w2")]),
        ("2 00:00:20", push("job_complete", status="timed_out")),
        ("2 00:00:30", push("job_complete", status="complete")),
    )
    times = at("1 23:59:50"), at("2 00:00:20"), 30.0
    assert found["push_runs"] == [(1, DAY_1, "a", "ls", *times, 3.0, "timed_out", 3, 2, 4, 2, 3, 1, 2)]
    nothing = (None,) * 5
    assert found["push_nodes"] == [
        (1, DAY_1, "w1", 1, 1, 1, 0, 0, 1.0, 0, 2, 1, 1, 20.0, 20.0, 20.0, 20.0, 20.0),
        (1, DAY_1, "w2", 1, 1, 0, 0, 1, 0.0, 1, 0, 0, 1, *nothing),
        (1, DAY_1, "w3", 1, 1, 0, 1, 0, 1.0, 0, 0, 0, 0, *nothing),
        (1, DAY_1, "w4", 1, 1, 1, 0, 0, 1.0, 0, 1, 0, 0, *nothing),
    ]
    assert found["timeouts"] == [(1, DAY_1, "push", "ls", "/push/a", None, *times)]


def test_push_run_without_start_has_other_events() -> None:
    found = tables_of(("1 10:00:00", push("run_start", node="w")), ("1 10:00:05", push("job_complete")))
    row = (1, DAY_1, "a", None, None, at("1 10:00:05"), None, None, None, None, None, 0, 0, 1, 0, 0)
    assert found["push_runs"] == [row]
    assert [row[2:9] for row in found["push_nodes"]] == [("w", 1, 0, 0, 0, 0, None)]
    assert (found["most_failing"], found["slowest"], found["waits"]) == ([], [], [])


@pytest.mark.parametrize("key", ["/push/", "/push/a/b", "/push", "push/a", None])
def test_push_runs_ignore_invalid_keys(key: str | None) -> None:
    assert tables_of(("1 10:00:00", push_event("start", key)))["push_runs"] == []


# All kinds of runs.


def test_waits_and_timeouts_of_all_kinds() -> None:
    found = tables_of(
        ("1 10:00:00", [job("create"), job("create", 2), order("Added"), push("start")]),
        ("1 10:00:01", [job("progress"), set_event("createJobSet", "/jobset/1", "s")]),
        ("1 10:00:03", [job("progress", 2), order("Started"), push("quorum_succeeded")]),
        ("1 10:01:00", [job("clean"), set_event("cleanJobSet", "/jobset/1", "s")]),
    )
    assert found["waits"] == [
        (1, DAY_1, "job", "build", 2, 2.0, pytest.approx(2.8), pytest.approx(2.98), 2.0, 3.0),
        (1, DAY_1, "order", "/c", 1, 3.0, 3.0, 3.0, 3.0, 3.0),
        (1, DAY_1, "push", None, 1, 3.0, 3.0, 3.0, 3.0, 3.0),
    ]
    assert found["timeouts"] == [
        (1, DAY_1, "job", "build", "/job/1", "n1", at("1 10:00:00"), at("1 10:01:00"), 60.0),
        (1, DAY_1, "jobset", None, "/jobset/1", "s", at("1 10:00:01"), at("1 10:01:00"), 59.0),
    ]


def test_slowest_are_ranked_by_seconds_then_key() -> None:
    numbers = range(1, 13)
    found = tables_of(
        ("1 10:00:00", [*(job("create", n) for n in numbers), order("Started"), push("start", command="ls")]),
        ("1 10:00:01", [job("finish", n, success="1") for n in numbers if n != 7]),
        ("1 10:00:02", [job("finish", 7, success="0"), order("Finished"), push("job_complete", status="aborted")]),
        ("1 10:00:03", job("clean", 8)),
    )["slowest"]
    begun = at("1 10:00:00")
    keys = ["/job/7", *(f"/job/{n}" for n in (1, 10, 11, 12, 2, 3, 4, 5, 6))]
    assert found == [
        *(
            (1, DAY_1, "job", rank, "build", key, "n1", begun, 2.0 if rank == 1 else 1.0)
            for rank, key in enumerate(keys, start=1)
        ),
        (1, DAY_1, "order", 1, "/c", "/c,1", None, begun, 2.0),
        (1, DAY_1, "push", 1, "ls", "/push/a", None, begun, 2.0),
    ]


def test_most_failing_ranked_by_failures_rate_and_name() -> None:
    outcomes = {"one": "01", "two": "00", "fine": "11", "also": "01", "half": "0011"}
    ends = [(kind, success) for kind, each in outcomes.items() for success in each]
    results = {"a": "complete", "b": "crashed", "c": "aborted"}
    found = tables_of(
        ("1 10:00:00", [job("finish", n, kind=kind, success=success) for n, (kind, success) in enumerate(ends)]),
        ("1 10:00:01", [job("clean", 99, kind="silent"), step_ended("Error"), order("Finished")]),
        ("1 10:00:02", [push("job_complete", name, status=result) for name, result in results.items()]),
    )["most_failing"]
    assert found == [
        (1, DAY_1, "job", 1, "two", 2, 2, 1.0),
        (1, DAY_1, "job", 2, "half", 4, 2, 0.5),
        (1, DAY_1, "job", 3, "silent", 1, 1, 1.0),
        (1, DAY_1, "job", 4, "also", 2, 1, 0.5),
        (1, DAY_1, "job", 5, "one", 2, 1, 0.5),
        (1, DAY_1, "order", 1, "/c", 1, 1, 1.0),
        (1, DAY_1, "push", 1, None, 3, 2, 2 / 3),
    ]


# Exports.


def test_tables_separate_servers_and_skip_internal_logs() -> None:
    starts = [commit for server in (-2, 0, 1, 2) for commit in make_commits([("1 10:00:00", job("create"))], server)]
    ends = make_commits([("1 10:00:09", job("clean"))], 2)
    found = tables_of_exports(Export("one", FULL, tuple(starts[:3])), Export("two", INCREMENTAL, tuple(ends)))
    assert [(row[0], row[10]) for row in found["job_runs"]] == [(1, None), (2, "timeout")]
    assert {row[0] for rows in found.values() for row in rows} == {1, 2}


def test_commit_in_several_exports_counts_once() -> None:
    first, last = make_commits([("1 10:00:00", job("create")), ("1 10:00:01", job("progress"))])
    deflated = replace(last, deflated=True)
    found = tables_of_exports(
        Export("3", FULL, (first,)),
        Export("1", INCREMENTAL, (deflated, first), files=2),
        Export("2", INCREMENTAL, (deflated,), deleted=((1, 1),)),
    )
    assert [row[3:] for row in found["throughput"]] == [("job/create/n1/build", 1), ("job/progress/n1/build", 1)]


def whole_history(history: History) -> Tables:
    return tables_of_exports(Export("whole", FULL, history))


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(split_histories())
def test_tables_do_not_depend_on_split_of_exports(both: tuple[History, tuple[Export, ...]]) -> None:
    history, exports = both
    found = tables_of_exports(*exports)
    assert found == whole_history(history)
    assert sum(row[4] for row in found["throughput"]) == sum(commit.n for commit in history if commit.server > 0)


def test_month_history_fills_every_table() -> None:
    month = month_history(1)
    exports = split(month, random.Random(3))
    found = tables_of_exports(*exports)
    assert sum(commit.n for commit in month) > 3_000
    assert sum(len(export.commits) for export in exports) > 1.2 * len(month)
    assert [name for name, rows in found.items() if len(rows) < 10] == []
    assert found == whole_history(month)


def test_month_history_is_deterministic() -> None:
    assert month_history(3, 30, 20, 10) == month_history(3, 30, 20, 10) != month_history(4, 30, 20, 10)
