"""Every read is exact, wherever the projector is, whatever happens to it, and whoever writes meanwhile."""

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
from chalicelib.domain.vocabularies import scheduler
from tests.exactness import tally
from tests.exactness.machine import EVERYTHING, Race, Reads, Store

EXAMPLES = {"sqlite": (50, 40), "moto": (3, 20)}
"""How many runs of the machine, and of how many steps; moto is slow."""
TAKEN = (
    "tail used",
    "read object",
    "read latest",
    "read block",
    "read sessions",
    "object ahead of its checkpoint",
    "latest ahead of its checkpoint",
    "block ahead of its checkpoint",
    "skipped ahead",
    "skipped back",
    "crashed",
    "refused",
    "rebuilt",
    "rebuild crashed",
    "append refused",
    "append granted",
    "raced by append",
    "raced by project",
    "raced by catch up",
    "raced by rebuild",
)
"""The paths that matter: had they not been taken, this would prove nothing."""

EVENTS = [
    tally.new_event("/job"),
    scheduler.new_event({"TYPE": "OrderAdded", "key": "/chain,1", "nodeId": "100"}),
    NewEvent(type=("rare",)),
]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary that counts, and limits so small that a few commits go beyond all of them."""
    counting: vocabularies.Vocabulary = tally
    monkeypatch.setitem(vars(vocabularies)["VOCABULARIES"], tally.NAME, counting)
    monkeypatch.setattr("chalicelib.services.reading.log_reader.SCAN_THRESHOLD", 3)
    monkeypatch.setattr("chalicelib.domain.views.block.BLOCK_BITS", 2)
    monkeypatch.setattr("chalicelib.domain.views.block.MOST_SUBTYPES", 4)
    monkeypatch.setattr("chalicelib.domain.views.object_view.SESSIONS_AT_HAND", 2)
    monkeypatch.setattr("chalicelib.adapters.sqlite.log.PAGE_COMMITS", 5)
    monkeypatch.setattr("chalicelib.adapters.sqlite.views.PAGE_RECORDS", 3)
    monkeypatch.setattr("chalicelib.adapters.dynamodb.views.FIRST_PAGE_RECORDS", 2)


@pytest.fixture(params=["sqlite", "moto"])
def store(request: pytest.FixtureRequest) -> Store:
    log, views = (request.getfixturevalue(f"{request.param}_{port}") for port in ("log", "views"))
    return Store(request.param, log, views, count(1), Counter())


def test_every_read_is_exact_on_the_way_through_all_paths(store: Store) -> None:
    machine = Reads(store)
    _lists_of_sessions_move(machine)
    for k, crash in ((2, 2), (3, 4), (5, 3)):
        _two_projectors_get_stuck(machine, k, crash)
    for what in ("append", "project", "catch up", "rebuild"):
        _readers_are_raced(machine, what)
    machine.rebuild(which=0, k=3, what="crash")
    machine.rebuild(which=0, k=9, what="nothing")
    machine.teardown()
    assert [path for path in TAKEN if not store.seen[path]] == []


def test_every_read_is_exact_whatever_happens(store: Store) -> None:
    examples, steps = EXAMPLES[store.name]
    machine: Any = partial(Reads, store)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # to shrink takes minutes; who looks for a failure adds Phase.shrink
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    if store.name != "moto":
        assert [path for path in TAKEN if not store.seen[path]] == []


def _lists_of_sessions_move(machine: Reads) -> None:
    machine.append_many(step_ms=30_000, commits=[EVENTS[:2]], times=8)
    for _ in range(2):
        machine.project(which=0, most=3)
    for place in (1, 4, 9, 15):
        for nth in range(3):
            machine.a_past_state_is_the_fold_up_to_then(which=0, nth=nth, place=place, race=None)


def _two_projectors_get_stuck(machine: Reads, k: int, crash: int) -> None:
    machine.append_many(step_ms=0, commits=[EVENTS, EVENTS[:1]], times=2)
    machine.project_and_be_overtaken(which=0, most=4, k=k, other=1, crash=crash, events=EVENTS)
    machine.project_and_crash(which=0, most=5, k=k)
    machine.any_collection_is_the_fold_of_all_events()
    machine.project_all_but_the_checkpoint(which=0, most=3)
    for _ in vocabularies.collections():
        machine.any_collection_is_the_fold_of_all_events()
    machine.the_latest_of_each_type_are_the_last_in_the_list(types=None, servers=[0, 1], race=None)
    selection = Selection(types=(("rare",),))
    machine.going_back_skips_nothing_selected(which=0, selection=selection, place=1, race=None)


def _readers_are_raced(machine: Reads, what: str) -> None:
    machine.append_many(step_ms=1_000, commits=[EVENTS], times=2)
    keys, race = Selection(keys=("/job",)), Race(4, what, EVENTS)
    machine.a_snapshot_is_the_fold_up_to_its_event_id(which=0, collection="tally", query=EVERYTHING, race=race)
    machine.a_feed_is_the_filtered_list(which=0, selection=keys, place=None, limit=None, delay_s=0, race=race)
    for selection in (keys, Selection(types=(("nothing",),))):
        machine.going_ahead_skips_nothing_selected(which=0, selection=selection, place=0, race=race)
    machine.a_position_is_found_as_by_looking_from_the_first(which=0, place=7, race=race)
    for types in (("rare",), ("nothing",)):
        machine.an_append_is_refused_if_and_only_if_an_event_matches(
            which=0, types=(types,), keys=None, place=0, events=EVENTS, race=race
        )
