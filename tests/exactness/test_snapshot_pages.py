"""All pages of a snapshot show the objects as of the first page, whatever is written and projected meanwhile."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput, Busy
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.size_limit import SizeLimit, utf8_bytes
from chalicelib.domain.vocabularies import JOB_VOCABULARY, SCHEDULER_VOCABULARY
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.objects.snapshot_pages import (
    MAX_FIRST_PAGE_ATTEMPTS,
    PAGE_TIMEOUT_S,
    SnapshotPage,
    SnapshotQuery,
    snapshot_page,
)
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention, RetentionBoundary
from tests.conformance.anyjob.anyjob import create, finish, progress
from tests.exactness.model import LogModel
from tests.exactness.stores import CountingLog
from tests.exactness.test_past_states import EXAMPLES, Store, _commits, objects
from tests.exactness.test_past_states import store as store  # noqa: PLC0414  (a fixture)
from tests.services.fakes import World

COLLECTIONS = ("job", "schedulerJob")
QUERIES = (("/",), ("/a/",), ("/a/*", "/"), ("/a/chain", "/b/"), ("/1", "/3", "/2"))


def read_pages(
    store: Store,
    model: LogModel,
    query: SnapshotQuery,
    between: Callable[[], object] = lambda: None,
    max_bytes: int = 10**6,
) -> list[SnapshotPage]:
    """Read all pages, and call `between` after each of them."""
    reader, boundary = LogReader(store.log, store.views, SizeLimit(max_bytes, utf8_bytes)), no_boundary(model)
    pages = [snapshot_page(query, reader, boundary)]
    while pages[-1].next is not None:
        between()
        cursor = pages[-1].next
        pages.append(
            snapshot_page(
                SnapshotQuery(query.server, query.collections, query.paths, query.limit, cursor), reader, boundary
            )
        )
    return pages


def no_boundary(model: LogModel) -> RetentionBoundary:
    return RetentionBoundary(Head(model.server), 0)


def expected_states(model: LogModel, collections: Sequence[str], paths: PathQuery, event_id: int) -> list[Any]:
    """The states as of `event_id`, ordered by collection and path."""
    refs = sorted(ref for ref in objects(model) if ref.collection in collections and vocabularies.matches(paths, ref))
    states = [model.state(ref, event_id) for ref in refs]
    return [state for state in states if state is not None]


def states_of(pages: Sequence[SnapshotPage]) -> list[Any]:
    return [json.loads(text) for page in pages for text in page.texts]


def test_snapshot_pages_are_exact_while_log_grows(store: Store) -> None:
    run_with_settings = settings(
        max_examples=EXAMPLES[store.name], deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )

    @run_with_settings
    @given(_commits, _commits, st.integers(0, 8), st.integers(0, 8), st.sampled_from(QUERIES), st.integers(1, 3))
    def check(
        before: list[list[NewEvent]],
        later: list[list[NewEvent]],
        projected: int,
        projected_later: int,
        texts: tuple[str, ...],
        limit: int,
    ) -> None:
        _, model = store.fill(before, projected)
        event_id, rest = model.last_event_id, list(later)

        def write_more() -> None:
            if rest:
                append = Append(model.server, encode_within_limits(rest.pop()), f"{model.server}.later.{len(rest)}")
                model.add(World().appender(store.log).append(append).commit)
            if projected_later:
                run_once(projector(store.views), model.server, store.log, store.views, projected_later)

        for collections in (COLLECTIONS, ("order",), ("fileBased",)):
            event_id, paths = model.last_event_id, PathQuery.parse(*texts)
            query = SnapshotQuery(model.server, collections, paths, limit)
            pages = read_pages(store, model, query, write_more)
            assert states_of(pages) == expected_states(model, collections, paths, event_id)
            assert {page.event_id for page in pages} == {event_id}
            assert all(len(page.texts) == limit for page in pages[:-1])

    check()


def jobs(*facts: dict[str, Any]) -> list[list[NewEvent]]:
    """One commit per job event."""
    return [[JOB_VOCABULARY.new_event(event)] for event in facts]


def test_snapshot_page_ends_at_size_limit(store: Store) -> None:
    _, model = store.fill(jobs(*(create(n) for n in range(1, 6))), 3)
    query = SnapshotQuery(model.server, ("job",), PathQuery.parse("/"), 1_000)
    pages = read_pages(store, model, query, max_bytes=1)
    assert [len(page.texts) for page in pages] == [1] * 5


@pytest.mark.parametrize(("times", "objects"), [([0.0, 1.0, PAGE_TIMEOUT_S + 1], 2), ([0.0, PAGE_TIMEOUT_S + 1], 1)])
def test_snapshot_page_ends_after_timeout(times: list[float], objects: int, store: Store) -> None:
    """But it has at least one object, otherwise the same page would be requested for ever."""
    _, model = store.fill(jobs(*(create(n) for n in range(1, 6))), 3)
    reader, clock = LogReader(store.log, store.views), iter(times)
    query = SnapshotQuery(model.server, ("job",), PathQuery.parse("/"), 1_000)
    page = snapshot_page(query, reader, no_boundary(model), lambda: next(clock))
    assert len(page.texts) == objects
    assert page.next is not None
    assert page.next.after == ObjectRef("job", f"/{objects}")


def test_changed_object_with_expired_events_is_refused(store: Store) -> None:
    _, model = store.fill(jobs(create(1), create(2), progress(2, state="run")), 3)
    reader, query = LogReader(store.log, store.views), SnapshotQuery(model.server, ("job",), PathQuery.parse("/"), 1)
    first = snapshot_page(query, reader, no_boundary(model))
    append = Append(model.server, encode_within_limits([JOB_VOCABULARY.new_event(finish(2))]), "later")
    model.add(World().appender(store.log).append(append).commit)
    run_once(projector(store.views), model.server, store.log, store.views, 10)
    boundary = Retention(store.log, World().clock, events=2).boundary(model.server)
    assert boundary.head.session == 2
    again = SnapshotQuery(model.server, ("job",), PathQuery.parse("/"), 1, first.next)
    with pytest.raises(BadInput, match=r"/2 changed after the first page.* start again without cursor"):
        snapshot_page(again, reader, boundary)


@pytest.mark.parametrize("changes", [1, MAX_FIRST_PAGE_ATTEMPTS - 1, MAX_FIRST_PAGE_ATTEMPTS])
def test_first_page_follows_changes_of_old_objects(changes: int, store: Store) -> None:
    """An object without its first events changes after the head has been read, this number of times."""
    _, model = store.fill(jobs(create(1), create(2), progress(2, state="run")), 3)
    boundary = Retention(store.log, World().clock, events=1).boundary(model.server)
    appender, rest = World().appender(store.log), list(range(changes))

    def change_object() -> None:
        if rest:
            event = JOB_VOCABULARY.new_event(progress(2, state=f"step {rest.pop()}"))
            append = Append(model.server, encode_within_limits([event]), f"{model.server}.later.{len(rest)}")
            model.add(appender.append(append).commit)
            run_once(projector(store.views), model.server, store.log, store.views, 10)

    class ChangingLog(CountingLog):
        def head(self, server: int) -> Head:
            head = store.log.head(server)
            change_object()
            return head

    reader = LogReader(ChangingLog(store.log), store.views)
    query = SnapshotQuery(model.server, ("job",), PathQuery.parse("/"), 10)
    if changes == MAX_FIRST_PAGE_ATTEMPTS:
        with pytest.raises(Busy, match=r"objects whose first events are no longer kept change .* retry"):
            snapshot_page(query, reader, boundary)
    else:
        page = snapshot_page(query, reader, boundary)
        assert page.event_id == model.last_event_id
        assert states_of([page]) == expected_states(model, ("job",), query.paths, page.event_id)


def test_removed_objects_do_not_count_for_limit(store: Store) -> None:
    added = [{"TYPE": "OrderAdded", "key": f"/a/chain,{n}", "nodeId": "A"} for n in range(6)]
    removed = [{"TYPE": "OrderRemoved", "key": f"/a/chain,{n}"} for n in (0, 1, 2, 5)]
    _, model = store.fill([[SCHEDULER_VOCABULARY.new_event(event)] for event in (*added, *removed)], 9)
    pages = read_pages(store, model, SnapshotQuery(model.server, ("order",), PathQuery.parse("/"), 2))
    assert [len(page.texts) for page in pages] == [2]
