"""`make demo`: a plausible month of events, deterministic for a seed."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import KEYED, ObjectRef
from infra.tools.demo.__main__ import fill
from infra.tools.demo.jobs import JOB_TYPES, NODES
from infra.tools.demo.month import DemoSpec
from tests.serving import ROOT

END_MS = int(datetime(2026, 11, 15, tzinfo=UTC).timestamp() * 1000)
MONTH_US = 30 * 24 * 3600 * 1_000_000
EVENTS = 6_000

States = dict[ObjectRef, Any]


@pytest.fixture(scope="module", name="events")
def demo_events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """All events of a demo."""
    folder = tmp_path_factory.mktemp("demo")
    fill(folder, "local", DemoSpec(7, END_MS, EVENTS))
    return list(events_in(folder))


@pytest.fixture(scope="module", name="states")
def folded_states(events: list[Event]) -> States:
    """The states of all objects."""
    states: States = {}
    for event in events:
        for ref in vocabularies.affected_objects(event.fields):
            if ref.collection != KEYED:
                states[ref] = vocabularies.fold(ref.collection, states.get(ref), event)
    return states


def events_in(folder: Path, server: int = 1) -> Iterator[Event]:
    database = Database(folder / "annals.sqlite")
    for commit in SqliteLog(database).read(server, 0):
        yield from commit.events
    database.close()


def rows(folder: Path) -> list[Any]:
    """The stored rows of organizations' logs."""
    database = Database(folder / "annals.sqlite")
    stored = database.query("SELECT place, at, n, prev, req, body FROM log WHERE place > (1 << 40)")
    database.close()
    return stored


def states_of(states: States, collection: str) -> list[Any]:
    return [state for ref, state in states.items() if ref.collection == collection]


def test_fill_writes_requested_events_within_month(events: list[Event]) -> None:
    ids = [event.event_id for event in events]
    assert len(ids) == EVENTS
    assert ids == sorted(set(ids))
    assert END_MS * 1000 - MONTH_US <= ids[0] < ids[-1] <= END_MS * 1000
    assert {(at - ids[0]) // (24 * 3600 * 1_000_000) for at in ids} == set(range(30))


def test_events_follow_their_vocabulary(events: list[Event]) -> None:
    strange = [event.text for event in events if _vocabulary_fields(event) is None]
    assert strange == []


def test_events_cover_all_report_tables(events: list[Event]) -> None:
    names = {event.fields.type[-1] if event.fields.type[0] == "scheduler" else event.fields.type[1] for event in events}
    assert names >= {
        *("create", "progress", "redirect", "finish", "clean", "createJobSet", "progressJobSet", "finishJobSet"),
        *("OrderAdded", "OrderStarted", "OrderStepStarted", "OrderStepEnded", "OrderSetBack", "OrderNodeChanged"),
        *("OrderFinished", "OrderRemoved", "OrderSuspended", "OrderResumed", "TaskStarted", "TaskEnded"),
        *("start", "quorum_vote", "quorum_succeeded", "run_start", "run_complete", "job_complete", "rehab"),
    }
    fields = [_vocabulary_fields(event) or {} for event in events]
    assert {event["success"] for event in fields if event.get("event") == "finish"} == {"0", "1"}
    assert {event["status"] for event in fields if event.get("event") == "job_complete"} >= {
        "complete",
        "quorum_failed",
    }
    created = [event.fields.type for event in events if event.fields.type[:2] == ("job", "create")]
    assert ({type_[3] for type_ in created}, {type_[2] for type_ in created}) == (
        {kind.name for kind in JOB_TYPES},
        set(NODES),
    )


def test_push_jobs_have_no_events_out_of_order(states: States) -> None:
    jobs = states_of(states, "pushJob")
    assert len(jobs) > 10
    assert [job["out_of_order"] for job in jobs if job["out_of_order"]] == []
    assert Counter(job["status"] for job in jobs)["complete"] > len(jobs) // 2


def test_jobs_start_with_create_and_end_with_last_event(events: list[Event], states: States) -> None:
    names_by_job: dict[str, list[str]] = {}
    for event in events:
        if event.fields.type[0] == "job":
            names_by_job.setdefault(str(event.fields.key), []).append(event.fields.type[1])
    assert {names[0] for names in names_by_job.values()} == {"create"}
    assert all(names.count("create") == 1 for names in names_by_job.values())
    assert [names for names in names_by_job.values() if {"finish", "clean"} & set(names[:-1])] == []
    assert len(names_by_job) == len(states_of(states, "job"))


def test_silent_job_is_cleaned_after_an_hour(events: list[Event]) -> None:
    last: dict[str | None, int] = {}
    silences = []
    for event in events:
        if event.fields.type[:2] == ("job", "clean"):
            silences.append((event.at_us - last[event.fields.key]) / 1_000_000)
        last[event.fields.key] = event.at_us
    assert silences
    assert all(3600 <= silence <= 3611 for silence in silences)


def test_jobsets_end_with_their_last_job(events: list[Event], states: States) -> None:
    sets = states_of(states, "jobset")
    finished = [jobset for jobset in sets if jobset["state"] == "finished"]
    assert finished
    assert all(len(jobset["jobs"]) == jobset["total"] == jobset["finished"] for jobset in finished)
    set_ends = [event for event in events if event.fields.type[:2] == ("jobset", "finishJobSet")]
    before = {event.id: event for event in events}
    assert all(before[end.id._replace(instance=end.id.instance - 1)].fields.type[1] == "finish" for end in set_ends)


def test_orders_pass_nodes_until_removed(events: list[Event], states: States) -> None:
    steps: dict[str, list[str]] = {}
    for event in events:
        if event.fields.type[1:2] == ("OrderEvent",):
            steps.setdefault(str(event.fields.key), []).append(event.fields.type[2])
    ended = [names for names in steps.values() if names[-1] == "OrderRemoved"]
    assert len(ended) > 20
    assert {tuple(names[:2]) for names in ended} == {("OrderAdded", "OrderStarted")}
    assert all(names.count("OrderStepStarted") == names.count("OrderStepEnded") for names in ended)
    gone = [ref for ref, state in states.items() if ref.collection == "order" and state is None]
    assert len(gone) == len(ended)


def test_builds_run_mostly_on_weekdays_by_day(events: list[Event]) -> None:
    builds = [
        datetime.fromtimestamp(event.at_us / 1_000_000, UTC)
        for event in events
        if event.fields.type[:2] == ("job", "create") and event.fields.type[3] in ("build", "test", "deploy")
    ]
    by_day = sum(8 <= start.hour < 18 for start in builds)
    at_weekend = sum(start.weekday() >= 5 for start in builds)
    assert by_day > 0.7 * len(builds)
    assert at_weekend < 0.15 * len(builds)


def test_fill_same_seed_and_end_gives_same_log(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("same", 7), ("other", 8)):
        fill(tmp_path / name, "local", DemoSpec(seed, END_MS, 800))
    assert rows(tmp_path / "first") == rows(tmp_path / "same")
    assert rows(tmp_path / "first") != rows(tmp_path / "other")


def test_fill_log_with_events_fails_unless_forced(tmp_path: Path) -> None:
    fill(tmp_path, "local", DemoSpec(7, END_MS, 300))
    before = rows(tmp_path)
    with pytest.raises(BadInput, match="the log of 'local' is not empty"):
        fill(tmp_path, "local", DemoSpec(7, END_MS, 300))
    assert rows(tmp_path) == before
    fill(tmp_path, "local", DemoSpec(7, END_MS, 300), force=True)
    events = list(events_in(tmp_path))
    created = Counter(event.fields.key for event in events if event.fields.type[:2] == ("job", "create"))
    assert (len(events), set(created.values())) == (600, {1})


def test_fill_other_organization_uses_its_log(tmp_path: Path) -> None:
    fill(tmp_path, "local", DemoSpec(7, END_MS, 300))
    fill(tmp_path, "other", DemoSpec(7, END_MS, 200))
    assert [len(list(events_in(tmp_path, server))) for server in (1, 2)] == [300, 200]


def test_command_shows_progress_and_refuses_full_log(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "infra.tools.demo", "--events", "400", "--end", "2026-11-15"]
    first, second = (
        subprocess.run(command, cwd=ROOT, env={"DATA_DIR": str(tmp_path)}, capture_output=True, text=True, check=False)
        for _ in range(2)
    )
    assert (first.returncode, first.stderr) == (0, "")
    assert "of 400 events\n" in first.stdout
    assert "\r" not in first.stdout
    assert (second.returncode, second.stderr.startswith("No demo data written: the log of 'local' is not empty.")) == (
        1,
        True,
    )


def _vocabulary_fields(event: Event) -> dict[str, Any] | None:
    vocabulary = vocabularies.for_type(event.fields.type)
    return None if vocabulary is None else vocabulary.native_json(event)
