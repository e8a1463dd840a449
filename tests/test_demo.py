"""`make demo`: a month that could have been, the same for the same seed, in the words of the vocabularies."""

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
from infra.tools.demo.jobs import KINDS, NODES
from infra.tools.demo.month import Wanted
from tests.serving import ROOT

END_MS = int(datetime(2026, 11, 15, tzinfo=UTC).timestamp() * 1000)
MONTH_US = 30 * 24 * 3600 * 1_000_000
EVENTS = 6_000

States = dict[ObjectRef, Any]


@pytest.fixture(scope="module", name="events")
def events_of_a_demo(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """All that a demo writes."""
    folder = tmp_path_factory.mktemp("demo")
    fill(folder, "local", Wanted(7, END_MS, EVENTS))
    return list(events_in(folder))


@pytest.fixture(scope="module", name="states")
def folded(events: list[Event]) -> States:
    """What the events fold into."""
    states: States = {}
    for event in events:
        for ref in vocabularies.objects_of(event.stored):
            if ref.collection != KEYED:
                states[ref] = vocabularies.fold(ref.collection, states.get(ref), event)
    return states


def events_in(folder: Path, server: int = 1) -> Iterator[Event]:
    database = Database(folder / "annals.sqlite")
    for commit in SqliteLog(database).read(server, 0):
        yield from commit.events
    database.close()


def rows(folder: Path) -> list[Any]:
    """The logs of organizations as they are stored."""
    database = Database(folder / "annals.sqlite")
    with database.reading() as connection:
        found = connection.execute("SELECT place, at, n, prev, req, body FROM log WHERE place > (1 << 40)").fetchall()
    database.close()
    return found


def of(states: States, collection: str) -> list[Any]:
    return [state for ref, state in states.items() if ref.collection == collection]


def test_a_demo_has_the_events_that_were_asked_for_within_its_month(events: list[Event]) -> None:
    ids = [event.event_id for event in events]
    assert len(ids) == EVENTS
    assert ids == sorted(set(ids))
    assert END_MS * 1000 - MONTH_US <= ids[0] < ids[-1] <= END_MS * 1000
    assert {(at - ids[0]) // (24 * 3600 * 1_000_000) for at in ids} == set(range(30))


def test_every_event_follows_its_vocabulary(events: list[Event]) -> None:
    strange = [event.text for event in events if _own(event) is None]
    assert strange == []


def test_all_that_a_report_tells_of_happens(events: list[Event]) -> None:
    happened = {
        event.stored.type[-1] if event.stored.type[0] == "scheduler" else event.stored.type[1] for event in events
    }
    assert happened >= {
        *("create", "progress", "redirect", "finish", "clean", "createJobSet", "progressJobSet", "finishJobSet"),
        *("OrderAdded", "OrderStarted", "OrderStepStarted", "OrderStepEnded", "OrderSetBack", "OrderNodeChanged"),
        *("OrderFinished", "OrderRemoved", "OrderSuspended", "OrderResumed", "TaskStarted", "TaskEnded"),
        *("start", "quorum_vote", "quorum_succeeded", "run_start", "run_complete", "job_complete", "rehab"),
    }
    own = [_own(event) or {} for event in events]
    assert {one["success"] for one in own if one.get("event") == "finish"} == {"0", "1"}
    assert {one["status"] for one in own if one.get("event") == "job_complete"} >= {"complete", "quorum_failed"}
    types = [event.stored.type for event in events if event.stored.type[:2] == ("job", "create")]
    assert ({one[3] for one in types}, {one[2] for one in types}) == ({kind.name for kind in KINDS}, set(NODES))


def test_push_jobs_fold_and_nothing_in_them_is_out_of_order(states: States) -> None:
    jobs = of(states, "pushJob")
    assert len(jobs) > 10
    assert [job["out_of_order"] for job in jobs if job["out_of_order"]] == []
    assert Counter(job["status"] for job in jobs)["complete"] > len(jobs) // 2


def test_jobs_are_created_before_all_else_and_nothing_comes_after_their_end(
    events: list[Event], states: States
) -> None:
    heard: dict[str, list[str]] = {}
    for event in events:
        if event.stored.type[0] == "job":
            heard.setdefault(str(event.stored.key), []).append(event.stored.type[1])
    assert {names[0] for names in heard.values()} == {"create"}
    assert all(names.count("create") == 1 for names in heard.values())
    assert [names for names in heard.values() if {"finish", "clean"} & set(names[:-1])] == []
    assert len(heard) == len(of(states, "job"))


def test_a_job_is_cleaned_an_hour_after_it_fell_silent(events: list[Event]) -> None:
    last: dict[str | None, int] = {}
    silences = []
    for event in events:
        if event.stored.type[:2] == ("job", "clean"):
            silences.append((event.at - last[event.stored.key]) / 1_000_000)
        last[event.stored.key] = event.at
    assert silences
    assert all(3600 <= silence <= 3611 for silence in silences)


def test_sets_of_jobs_end_with_the_last_of_their_jobs(events: list[Event], states: States) -> None:
    sets = of(states, "jobset")
    over = [one for one in sets if one["state"] == "finished"]
    assert over
    assert all(len(one["jobs"]) == one["total"] == one["finished"] for one in over)
    together = [event for event in events if event.stored.type[:2] == ("jobset", "finishJobSet")]
    before = {event.id: event for event in events}
    assert all(before[one.id._replace(instance=one.id.instance - 1)].stored.type[1] == "finish" for one in together)


def test_orders_go_from_node_to_node_until_they_are_removed(events: list[Event], states: States) -> None:
    steps: dict[str, list[str]] = {}
    for event in events:
        if event.stored.type[1:2] == ("OrderEvent",):
            steps.setdefault(str(event.stored.key), []).append(event.stored.type[2])
    ended = [names for names in steps.values() if names[-1] == "OrderRemoved"]
    assert len(ended) > 20
    assert {tuple(names[:2]) for names in ended} == {("OrderAdded", "OrderStarted")}
    assert all(names.count("OrderStepStarted") == names.count("OrderStepEnded") for names in ended)
    gone = [ref for ref, state in states.items() if ref.collection == "order" and state is None]
    assert len(gone) == len(ended)


def test_there_is_more_to_do_on_weekdays_and_builds_run_by_day(events: list[Event]) -> None:
    builds = [
        datetime.fromtimestamp(event.at / 1_000_000, UTC)
        for event in events
        if event.stored.type[:2] == ("job", "create") and event.stored.type[3] in ("build", "test", "deploy")
    ]
    by_day = sum(8 <= one.hour < 18 for one in builds)
    at_weekend = sum(one.weekday() >= 5 for one in builds)
    assert by_day > 0.7 * len(builds)
    assert at_weekend < 0.15 * len(builds)


def test_the_same_seed_and_end_make_the_same_log_and_another_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("same", 7), ("other", 8)):
        fill(tmp_path / name, "local", Wanted(seed, END_MS, 800))
    assert rows(tmp_path / "one") == rows(tmp_path / "same")
    assert rows(tmp_path / "one") != rows(tmp_path / "other")


def test_a_log_with_events_is_left_alone_unless_forced(tmp_path: Path) -> None:
    fill(tmp_path, "local", Wanted(7, END_MS, 300))
    before = rows(tmp_path)
    with pytest.raises(BadInput, match="the log of 'local' is not empty"):
        fill(tmp_path, "local", Wanted(7, END_MS, 300))
    assert rows(tmp_path) == before
    fill(tmp_path, "local", Wanted(7, END_MS, 300), force=True)
    events = list(events_in(tmp_path))
    created = Counter(event.stored.key for event in events if event.stored.type[:2] == ("job", "create"))
    assert (len(events), set(created.values())) == (600, {1})


def test_another_organization_gets_a_log_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path, "local", Wanted(7, END_MS, 300))
    fill(tmp_path, "other", Wanted(7, END_MS, 200))
    assert [len(list(events_in(tmp_path, server))) for server in (1, 2)] == [300, 200]


def test_the_command_says_how_far_it_is_and_refuses_politely(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "infra.tools.demo", "--events", "400", "--end", "2026-11-15"]
    first, second = (
        subprocess.run(command, cwd=ROOT, env={"DATA_DIR": str(tmp_path)}, capture_output=True, text=True, check=False)
        for _ in range(2)
    )
    assert (first.returncode, first.stderr) == (0, "")
    assert "of 400 events\n" in first.stdout
    assert "\r" not in first.stdout
    assert (second.returncode, second.stderr.startswith("No demo: the log of 'local' is not empty.")) == (1, True)


def _own(event: Event) -> dict[str, Any] | None:
    vocabulary = vocabularies.of_type(event.stored.type)
    return None if vocabulary is None else vocabulary.own_json(event)
