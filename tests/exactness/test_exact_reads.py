"""Every read is exact, however far the projector has got, with crashes, rebuilds and concurrent writers."""

from collections import Counter
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.vocabularies import JOB_VOCABULARY, SCHEDULER_VOCABULARY
from tests.conformance.anyjob import anyjob
from tests.exactness import tally
from tests.exactness.machine import EVERYTHING, ReadMachine
from tests.exactness.write_machine import Race, Store

EXAMPLES = {"sqlite": (60, 45), "moto": (3, 20), "dynamodb_local": (20, 40)}
"""Number of runs of the machine and of steps in each. The emulators are slow."""
REQUIRED_PATHS = (
    "tail used",
    "read object",
    "read latest",
    "read block",
    "read sessions",
    "object ahead of its checkpoint",
    "latest ahead of its checkpoint",
    "block ahead of its checkpoint",
    "list ahead of its checkpoint",
    "list in pages",
    "job number",
    "skipped ahead",
    "skipped back",
    "crashed",
    "refused",
    "rebuilt",
    "rebuild crashed",
    "append refused",
    "append granted",
    "paged back",
    "raced by append",
    "raced by project",
    "raced by catch up",
    "raced by rebuild",
)
"""Paths that a test must have taken to prove anything."""

EVENTS = [
    tally.new_event("/job"),
    SCHEDULER_VOCABULARY.new_event({"TYPE": "OrderAdded", "key": "/chain,1", "nodeId": "100"}),
    JOB_VOCABULARY.new_event(anyjob.create(30)),
    NewEvent(type=("rare",)),
]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the tally vocabulary, and reduce limits so far that a few commits exceed them."""
    for mapping in ("VOCABULARIES", "_BY_FIRST_SUBTYPE"):
        monkeypatch.setitem(vars(vocabularies)[mapping], tally.NAME, tally.TALLY_VOCABULARY)
    monkeypatch.setattr("chalicelib.services.reading.log_reader.SCAN_THRESHOLD", 3)
    monkeypatch.setattr("chalicelib.services.reading.log_reader.MAX_SEARCH_DISTANCE", 3)
    monkeypatch.setattr("chalicelib.domain.views.block.BLOCK_BITS", 2)
    monkeypatch.setattr("chalicelib.domain.views.list_index.LEAF_BITS", 1)
    monkeypatch.setattr("chalicelib.domain.views.list_index.NODE_BITS", 1)
    monkeypatch.setattr("chalicelib.domain.views.block.MAX_SUBTYPES_PER_POSITION", 4)
    monkeypatch.setattr("chalicelib.domain.views.block.MAX_INNER_SUBTYPES_PER_POSITION", 6)
    monkeypatch.setattr("chalicelib.domain.views.block.MAX_LISTED_CHILDREN", 2)
    monkeypatch.setattr("chalicelib.services.reading.tail_cache.MAX_TAIL_COMMITS", 7)
    monkeypatch.setattr("chalicelib.services.reading.tail_cache.MAX_CACHED_COMMITS", 9)
    monkeypatch.setattr("chalicelib.domain.views.object_view.MAX_RECENT_SESSIONS", 2)
    monkeypatch.setattr("chalicelib.domain.views.object_view.MAX_COPIED_CHARACTERS", 400)
    monkeypatch.setattr("chalicelib.domain.views.excerpt.MAX_EXCERPT_CHARACTERS", 300)
    monkeypatch.setattr("chalicelib.adapters.sqlite.log.MAX_PAGE_COMMITS", 5)
    monkeypatch.setattr("chalicelib.adapters.sqlite.views.PAGE_RECORDS", 3)
    monkeypatch.setattr("chalicelib.adapters.dynamodb.views.FIRST_PAGE_RECORDS", 2)


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def store(request: pytest.FixtureRequest) -> Store:
    log, views = (request.getfixturevalue(f"{request.param}_{port}") for port in ("log", "views"))
    return Store(request.param, log, views, count(1), Counter())


def test_reads_are_exact_on_all_required_paths(store: Store) -> None:
    machine = ReadMachine(store)
    _archive_sessions(machine)
    for write_number, crash in ((2, 2), (3, 4), (5, 3)):
        _let_projectors_crash(machine, write_number, crash)
    for action in ("append", "project", "catch up", "rebuild"):
        _race_readers(machine, action)
    machine.rebuild(index=0, write_number=3, action="crash")
    machine.rebuild(index=0, write_number=9, action="nothing")
    machine.teardown()
    # DynamoDB does not refuse the records of an overtaken projector, because the other one has written the same.
    required = [path for path in REQUIRED_PATHS if path != "refused" or store.name == "sqlite"]
    assert [path for path in required if not store.paths[path]] == []


def test_reads_are_exact_in_random_runs(store: Store) -> None:
    examples, steps = EXAMPLES[store.name]
    machine: Any = partial(ReadMachine, store)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # Shrinking takes minutes. Add Phase.shrink to analyse a failure.
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    if store.name == "sqlite":
        assert [path for path in REQUIRED_PATHS if not store.paths[path]] == []


def _archive_sessions(machine: ReadMachine) -> None:
    machine.append(index=0, step_ms=0, events=[tally.new_event(f"/{n}") for n in range(5)])
    machine.append_many(step_ms=30_000, commits=[EVENTS[:2]], times=8)
    for _ in range(2):
        machine.project(index=0, max_commits=3)
    for position_number in (1, 4, 9, 15):
        for object_number in range(3):
            machine.check_past_state(index=0, object_number=object_number, position_number=position_number, race=None)


def _let_projectors_crash(machine: ReadMachine, write_number: int, crash: int) -> None:
    machine.append_many(step_ms=0, commits=[EVENTS, EVENTS[:1]], times=2)
    machine.project_and_be_overtaken(
        index=0, max_commits=4, write_number=write_number, other=1, crash=crash, events=EVENTS
    )
    machine.project_and_crash(index=0, max_commits=5, write_number=write_number)
    machine.check_next_collection()
    machine.project_without_checkpoint(index=0, max_commits=3)
    for _ in vocabularies.collections():
        machine.check_next_collection()
    machine.check_next_job_number(index=0, race=None)
    machine.check_latest(types=None, servers=[0, 1], race=None)
    selection = Selection(types=(("rare",),))
    machine.check_commits_before(index=0, selection=selection, position_number=1, race=None)
    machine.check_paging_backwards(
        index=0, selection=selection, position_number=None, before_number=None, limit=-1, race=None
    )


def _race_readers(machine: ReadMachine, action: str) -> None:
    machine.append_many(step_ms=1_000, commits=[EVENTS], times=2)
    keys, race = Selection(keys=("/job",)), Race(4, action, EVENTS)
    machine.check_snapshot(index=0, collection="tally", query=EVERYTHING, race=race)
    machine.check_feed(index=0, selection=keys, position_number=None, limit=None, delay_s=0, race=race)
    for use_number in range(1, 12):
        races = Race(use_number, action, EVENTS), Race(use_number, action, EVENTS)
        machine.check_list(index=0, collection="tally", limit=1, races=races, events=EVENTS)
    for selection in (keys, Selection(types=(("nothing",),))):
        machine.check_commits_after(index=0, selection=selection, position_number=0, race=race)
    machine.check_position_at(index=0, position_number=7, race=race)
    for types in (("rare",), ("nothing",)):
        selection = Selection(types=(types,))
        machine.check_append_condition(index=0, selection=selection, position_number=0, events=EVENTS, race=race)
