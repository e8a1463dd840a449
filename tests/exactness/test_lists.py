"""Pages, filters and counts of lists equal those of a list in memory, whatever is written and projected meanwhile."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import State
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.objects.listing import PAGE_TIMEOUT_S, ListQuery, ObjectList, list_objects
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.conformance.anyjob.anyjob import create, finish, progress
from tests.exactness import strategies
from tests.exactness.model import LogModel
from tests.exactness.stores import CallOnce, Crash, InterceptedViews
from tests.exactness.test_past_states import EVERYTHING, EXAMPLES, Store, _commits, no_boundary, objects
from tests.exactness.test_past_states import store as store  # noqa: PLC0414  (a fixture)
from tests.services.fakes import World

FILTERS = (
    ListFilter(),
    ListFilter(state="finished"),
    ListFilter(result="failure"),
    ListFilter(search="N2"),
    ListFilter(node="n2"),
    ListFilter(type="backup", state="created"),
    ListFilter(type="other"),
    ListFilter(author="root"),
    ListFilter(words=("BACKUP", "n1")),
    ListFilter(search="1", result="success"),
)


@pytest.fixture(params=[0, 2_000], ids=["from the index", "in memory"], autouse=True)
def small_tree(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves and nodes with two members, so that short lists have high trees."""
    monkeypatch.setattr("chalicelib.domain.views.list_index.LEAF_BITS", 1)
    monkeypatch.setattr("chalicelib.domain.views.list_index.NODE_BITS", 1)
    monkeypatch.setattr("chalicelib.domain.views.list_index.MAX_STATES_PER_SUMMARY", 1)
    monkeypatch.setattr("chalicelib.services.objects.listing.MAX_COUNTED_OBJECTS", request.param)
    monkeypatch.setattr("chalicelib.services.objects.listing.MANY_RECENT_OBJECTS", 2)


def expected_list(model: LogModel, query: ListQuery, event_id: int) -> tuple[list[ObjectSummary], ...]:
    """The selected objects as of `event_id` in order, and those that the counts include."""
    listed: list[tuple[int, str, ObjectSummary, State]] = []
    for ref, events in objects(model).items():
        sessions = [event.id.session for event in events if event.event_id <= event_id]
        state = model.state(ref, event_id)
        if ref.collection == query.collection and vocabularies.matches(query.paths, ref) and state is not None:
            summary = vocabularies.summarize(ref, state)
            listed.append((sessions[-1], summary.updated_at or "", summary, state))
    listed.sort(key=lambda item: item[2].path)
    listed.sort(key=lambda item: item[:2], reverse=True)
    times = {commit.session: commit.last_event_id for commit in model.commits}
    counted = [
        summary
        for session, _, summary, state in listed
        if (query.since_us is None or times[session] >= query.since_us)
        and (query.until_us is None or times[session] < query.until_us)
        and is_selected(query.filter, summary, state)
    ]
    wanted = query.filter
    selected = [s for s in counted if wanted.state in (None, s.state) and wanted.result in (None, s.result)]
    return selected, counted


def is_selected(wanted: ListFilter, summary: ObjectSummary, state: State) -> bool:
    """Whether the filter selects the object, whatever its state and result."""
    text = f"{summary.path} {summary.label}".casefold()
    whole = f"{text} {state}".casefold()
    return (
        wanted.search.casefold() in text
        and all(word.casefold() in whole for word in wanted.words)
        and wanted.type in (None, state.get("type"))
        and wanted.node in (None, summary.node)
        and wanted.author in (None, (state.get("props") or {}).get("author"))
    )


def read_list(store: Store, query: ListQuery, between: Callable[[], object] = lambda: None) -> list[ObjectList]:
    """Read all pages, and call `between` after each of them."""
    model_boundary = Retention(store.log, World().clock).boundary(query.server)
    reader = LogReader(store.log, store.views)
    pages = [list_objects(query, reader, model_boundary)]
    while pages[-1].next is not None:
        between()
        pages.append(list_objects(replace(query, cursor=pages[-1].next), reader, model_boundary))
    return pages


def check_list(store: Store, model: LogModel, query: ListQuery, between: Callable[[], object] = lambda: None) -> None:
    """Compare all pages with the model."""
    event_id = model.last_event_id
    pages = read_list(store, query, between)
    selected, counted = expected_list(model, query, event_id)
    assert [summary for page in pages for summary in page.elements] == selected
    assert {page.event_id for page in pages} == {event_id}
    first = pages[0]
    if first.counts is not None:
        assert first.counts == Counter(summary.state for summary in counted)
        assert first.results == Counter(summary.result for summary in counted if summary.result)
    else:
        is_whole = query.paths.matches_everything and query.since_us is None and query.until_us is None
        assert not (is_whole and query.filter.counts_everything)


def check_random(store: Store, check: Callable[..., None], *arguments: Any) -> None:
    run_with_settings = settings(
        max_examples=EXAMPLES[store.name], deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    run_with_settings(given(*arguments)(check))()  # type: ignore[no-untyped-call]  # `given` removes the type.


def append(store: Store, model: LogModel, events: list[NewEvent]) -> None:
    request = Append(model.server, encode_within_limits(events), f"{model.server}.later.{len(model.commits)}")
    model.add(World().appender(store.log).append(request).commit)


def test_list_in_pages_is_exact_while_log_grows(store: Store) -> None:
    def check(
        before: list[list[NewEvent]], later: list[list[NewEvent]], runs: list[int], limit: int, later_run: int
    ) -> None:
        _, model = store.fill(before, 0)
        for length in runs:
            run_once(projector(store.views), model.server, store.log, store.views, length)
        rest = list(later)

        def write_more() -> None:
            if rest:
                append(store, model, rest.pop())
            if later_run:
                run_once(projector(store.views), model.server, store.log, store.views, later_run)

        for collection in ("job", "jobset", "order", "pushJob"):
            for wanted in FILTERS:
                query = ListQuery(model.server, collection, EVERYTHING, wanted, limit=limit)
                check_list(store, model, query, write_more)

    runs = st.lists(st.integers(1, 4), max_size=5)
    check_random(store, check, _commits, _commits, runs, st.integers(1, 3), st.integers(0, 4))


def test_list_of_folders_is_exact_while_log_grows(store: Store) -> None:
    def check(
        before: list[list[NewEvent]], later: list[list[NewEvent]], paths: PathQuery, runs: list[int], limit: int
    ) -> None:
        _, model = store.fill(before, 0)
        for length in runs:
            run_once(projector(store.views), model.server, store.log, store.views, length)
        rest = list(later)

        def write_more() -> None:
            if rest:
                append(store, model, rest.pop())
                run_once(projector(store.views), model.server, store.log, store.views, 2)

        for collection in ("order", "jobChain", "task", "fileBased", "job"):
            for wanted in (ListFilter(), ListFilter(node="A")):
                check_list(store, model, ListQuery(model.server, collection, paths, wanted, limit=limit), write_more)

    commits = st.lists(st.lists(strategies.scheduler_events, min_size=1, max_size=5), min_size=1, max_size=8)
    runs = st.lists(st.integers(1, 4), max_size=5)
    check_random(store, check, commits, commits, strategies.path_queries, runs, st.integers(1, 3))


def test_list_by_time_is_exact(store: Store) -> None:
    def check(commits: list[list[NewEvent]], projected: int, since: int, until: int, limit: int) -> None:
        _, model = store.fill(commits, projected)
        times = [commit.at_us + step for commit in model.commits for step in (0, 1)]
        for since_us, until_us in ((times[since % len(times)], None), (None, times[until % len(times)])):
            query = ListQuery(model.server, "job", EVERYTHING, since_us=since_us, until_us=until_us, limit=limit)
            check_list(store, model, query)

    check_random(store, check, _commits, st.integers(0, 8), st.integers(0, 20), st.integers(0, 20), st.integers(1, 3))


def test_list_after_crashes_and_overtaking_is_exact(store: Store) -> None:
    """Projectors crash at any write, overtake each other there, and have runs of other lengths."""

    def check(commits: list[list[NewEvent]], steps: list[tuple[int, int, int]]) -> None:
        _, model = store.fill(commits, 0)
        server = model.server

        def crash() -> None:
            raise Crash

        for length, write_number, other_length in steps:

            def overtake(length: int = other_length) -> None:
                run_once(projector(store.views), server, store.log, store.views, length)

            hook = CallOnce(write_number, overtake if other_length else crash)
            views = InterceptedViews(store.views, Counter(), hook)
            with suppress(Crash):
                run_once(projector(views), server, store.log, views, length)
            for collection in ("job", "jobset", "order"):
                check_list(store, model, ListQuery(server, collection, EVERYTHING, limit=2))
                failed = ListFilter(state="finished")
                check_list(store, model, ListQuery(server, collection, EVERYTHING, failed, limit=2))

    steps = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 25), st.integers(0, 4)), min_size=1, max_size=6)
    check_random(store, check, _commits, steps)


def jobs(*facts: dict[str, Any]) -> list[list[NewEvent]]:
    """One commit per job event."""
    return [[JOB_VOCABULARY.new_event(event)] for event in facts]


def test_list_shows_objects_that_all_changed_meanwhile(store: Store) -> None:
    """Leaves whose objects have all changed since the first page are still read."""
    _, model = store.fill(jobs(*(create(n) for n in range(1, 7))), 6)

    def finish_all() -> None:
        append(store, model, [JOB_VOCABULARY.new_event(finish(n)) for n in range(1, 7)])
        catch_up(projector(store.views), model.server, store.log, store.views)

    check_list(store, model, ListQuery(model.server, "job", EVERYTHING, limit=1), finish_all)


def test_list_does_not_repeat_object_that_was_in_tail(store: Store) -> None:
    """The first page has an object that is projected before the next page."""
    _, model = store.fill(jobs(*(create(n) for n in range(1, 5)), finish(1)), 4)

    def project() -> None:
        catch_up(projector(store.views), model.server, store.log, store.views)

    check_list(store, model, ListQuery(model.server, "job", EVERYTHING, limit=1), project)


def test_list_of_folder_is_exact(store: Store) -> None:
    facts = [{"TYPE": "OrderAdded", "key": f"/{folder}/chain,{n}", "nodeId": "A"} for n in (1, 2) for folder in "ab"]
    _, model = store.fill([[vocabularies.SCHEDULER_VOCABULARY.new_event(event)] for event in facts], 1)
    check_list(store, model, ListQuery(model.server, "order", PathQuery.parse("/a/"), limit=1))


def test_list_continues_after_timeout(store: Store) -> None:
    """Each page advances, however late it is."""
    _, model = store.fill(jobs(*(create(n) for n in range(1, 6))), 5)
    query = ListQuery(model.server, "job", EVERYTHING, ListFilter(words=("none",)))
    times = count(step=PAGE_TIMEOUT_S)
    reader, boundary = LogReader(store.log, store.views), no_boundary(model)
    page = list_objects(query, reader, boundary, lambda: next(times))
    pages = [page]
    while page.next is not None:
        page = list_objects(replace(query, cursor=page.next), reader, boundary, lambda: next(times))
        pages.append(page)
    assert [page.elements for page in pages] == [()] * len(pages)
    assert len(pages) < 9


def test_list_cannot_be_continued_after_rebuild(store: Store) -> None:
    _, model = store.fill(jobs(create(1), create(2)), 2)
    query = ListQuery(model.server, "job", EVERYTHING, limit=1)
    reader, boundary = LogReader(store.log, store.views), no_boundary(model)
    first = list_objects(query, reader, boundary)
    rebuild(model.server, store.log, store.views, lambda *_: None)
    with pytest.raises(BadInput, match="rebuilt since the first page; start again without cursor"):
        list_objects(replace(query, cursor=first.next), reader, boundary)


def test_list_counts_many_states_as_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chalicelib.domain.views.list_index.MAX_COUNTED_STATES", 2)
    steps = [progress(n, state=f"step {n}") for n in (1, 2, 3, 4)]
    _, model = store.fill(jobs(*(create(n) for n in (1, 2, 3, 4)), *steps, finish(4)), 8)
    query = ListQuery(model.server, "job", EVERYTHING)
    reader, boundary = LogReader(store.log, store.views), no_boundary(model)
    assert list_objects(query, reader, boundary).counts == {"step 1": 1, "step 2": 1, "…": 2}
    catch_up(projector(store.views), model.server, store.log, store.views)
    assert list_objects(query, reader, boundary).counts == {"step 1": 1, "step 2": 1, "…": 2}
