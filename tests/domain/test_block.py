"""Blocks: each selected event is found in its child, and the order of the runs makes no difference."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.block import (
    BLOCK_BITS,
    MAX_CHARACTERS_PER_POSITION,
    MAX_INNER_SUBTYPES_PER_POSITION,
    MAX_LISTED_CHILDREN,
    MAX_SUBTYPES_PER_POSITION,
    Block,
    BlockId,
    CommitSubtypes,
)
from chalicelib.domain.views.record import Checkpoint
from tests.services.consumers.sample_events import Text, chained_commits, events, events_of

CHILDREN = 2**BLOCK_BITS
JOB_TYPE = ("job", "start")

levels = st.integers(0, 2)
commit_texts = st.lists(st.lists(events, min_size=1, max_size=3), min_size=1, max_size=9)


def content(session: int, *types: EventType) -> CommitSubtypes:
    pairs = frozenset(pair for event_type in types for pair in enumerate(event_type))
    return CommitSubtypes(session, pairs, min(map(len, types)))


def children(block: Block, pattern: EventType) -> list[int]:
    return list(block.children(Selection(types=(pattern,))))


@given(levels, commit_texts, st.data())
def test_children_include_those_of_selected_events(level: int, texts: Sequence[Sequence[Text]], data: Any) -> None:
    commits = chained_commits(1, Head(1), [(1, batch) for batch in texts])
    block = Block().fold(level, map(CommitSubtypes.of, commits))
    event = data.draw(st.sampled_from(events_of(commits)))
    subtypes = [data.draw(st.sampled_from([subtype, "?"])) for subtype in event.fields.type]
    pattern = data.draw(st.sampled_from([tuple(subtypes), (*subtypes[: len(subtypes) // 2], "*"), (*subtypes, "*")]))
    selection = Selection(types=(("none", "of", "them"), pattern))
    assert selection.selects(event)
    assert event.id.session >> BLOCK_BITS * level in block.children(selection)


@given(levels, commit_texts, st.integers(0, 9), st.integers(0, 9))
def test_fold_in_overlapping_runs_equals_single_fold(
    level: int, texts: Sequence[Sequence[Text]], end: int, start: int
) -> None:
    """Another projector repeats the commits from `start`, which is not after `end`."""
    commits = [CommitSubtypes.of(commit) for commit in chained_commits(1, Head(1), [(1, batch) for batch in texts])]
    once = Block().fold(level, commits)
    assert Block().fold(level, commits[:end]).fold(level, commits[min(start, end) :]) == once
    assert once.fold(level, commits) == once


@given(levels, commit_texts)
def test_block_from_its_record_is_equal(level: int, texts: Sequence[Sequence[Text]]) -> None:
    commits = chained_commits(1, Head(1), [(1, batch) for batch in texts])
    block = Block().fold(level, map(CommitSubtypes.of, commits))
    assert Block.from_record(block.to_record(Checkpoint(Head(1)), BlockId(level, 0))) == block


def test_rare_subtype_is_found_in_exactly_its_children() -> None:
    rare = {7: ("alarm", "fire"), 99: ("alarm", "flood"), 127: ("alarm", "fire")}
    block = Block().fold(0, [content(session, rare.get(session, JOB_TYPE)) for session in range(CHILDREN)])
    assert children(block, ("alarm", "fire")) == [7, 127]
    assert children(block, ("alarm", "*")) == [7, 99, 127]
    assert children(block, ("?", "flood")) == [99]
    assert children(block, ("alarm",)) == []
    assert children(block, ("alarm", "fire", "cellar")) == []


def test_common_subtype_stops_changing_the_block() -> None:
    sessions = range(1, MAX_LISTED_CHILDREN + 2)
    block = Block().fold(0, [content(session, JOB_TYPE) for session in sessions])
    assert block.last_session == MAX_LISTED_CHILDREN + 1
    assert block.fold(0, [content(100, JOB_TYPE)]) == block
    assert children(block, JOB_TYPE) == list(range(CHILDREN))


@pytest.mark.parametrize(
    ("level", "names"), [(0, MAX_SUBTYPES_PER_POSITION), (1, MAX_INNER_SUBTYPES_PER_POSITION)], ids=["leaf", "inner"]
)
def test_rare_type_beside_too_many_names_is_found(level: int, names: int) -> None:
    """The names at the second position are no longer listed, those at the others are."""
    usual = [content(n << BLOCK_BITS * level, ("job", f"n{n}.{m}", "end")) for n in range(64) for m in range(10)]
    usual = [*usual, *(content(64 << BLOCK_BITS * level, ("job", f"x{n}", "end")) for n in range(names))]
    block = Block().fold(level, usual).fold(level, [content(77 << BLOCK_BITS * level, ("job", "n1", "lost"))])
    assert children(block, ("job", "n1", "lost")) == [77]
    assert children(block, ("?", "unknown", "end")) == list(range(CHILDREN))


def test_long_subtypes_do_not_fill_a_block() -> None:
    names = ["x" * MAX_CHARACTERS_PER_POSITION, "y"]
    block = Block().fold(0, [content(n, ("job", name)) for n, name in enumerate(names)])
    assert len(block.to_record(Checkpoint(Head(1)), BlockId(0, 0)).data) < 100


@pytest.mark.parametrize(
    ("last_session", "root"),
    [(1, (0, 0)), (CHILDREN - 1, (0, 0)), (CHILDREN, (1, 0)), (CHILDREN**2 - 1, (1, 0)), (CHILDREN**2, (2, 0))],
)
def test_root_covers_all_sessions(last_session: int, root: tuple[int, int]) -> None:
    assert BlockId.root(last_session) == root
    assert BlockId.root(last_session).last_session >= last_session
