"""A state machine that writes at random, and compares every read with a model of the log."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from pydantic_core import from_json

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput, ConditionFailed
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.jobs.job_numbers import JobNumbers
from chalicelib.services.log.appender import Appender
from chalicelib.services.objects.listing import ListQuery, list_objects
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention, RetentionBoundary
from chalicelib.services.reading.timeseries import timeseries
from tests.exactness import model, strategies
from tests.exactness.model import LogModel
from tests.exactness.write_machine import (
    FakeNotifier,
    Race,
    Store,
    WriteMachine,
    limits,
    log_indexes,
    position_numbers,
    races,
)

MAX_PAGES = 300
EVERYTHING = PathQuery.parse("/")


class ReadMachine(WriteMachine):
    """Checks of all reads, as rules of the machine."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.job_numbers = JobNumbers(self._new_reader())
        """Remembers up to where it has read the log."""

    @invariant()
    def check_next_collection(self) -> None:
        log_model, collection = self.models[0], next(self.collections)
        self._record_lag(log_model)
        result = snapshot(self._reader(log_model), log_model.server, collection, EVERYTHING)
        assert (result.event_id, result.states) == (
            log_model.last_event_id,
            log_model.snapshot(collection, EVERYTHING, log_model.last_event_id),
        )
        self._check_first_page(log_model, collection)

    @rule(index=log_indexes, collection=strategies.collections, query=strategies.path_queries, race=races)
    def check_snapshot(self, index: int, collection: str, query: PathQuery, race: Race | None) -> None:
        log_model, before = self.models[index], self.models[index].last_event_id
        result = snapshot(self._reader(log_model, race), log_model.server, collection, query)
        assert before <= result.event_id <= log_model.last_event_id
        assert list(result.states.items()) == list(log_model.snapshot(collection, query, result.event_id).items())

    @rule(index=log_indexes, race=races)
    def check_next_job_number(self, index: int, race: Race | None) -> None:
        log_model = self.models[index]
        before = log_model.greatest_job_number
        for numbers in (JobNumbers(self._reader(log_model, race)), self.job_numbers):
            _, assigned = numbers.assign(log_model.server, [strategies.NEW_JOB])
            assert assigned is not None
            numbers.release(assigned)
            assert assigned.numbers[0] - 1 in (before, log_model.greatest_job_number)
            before = log_model.greatest_job_number
        self.paths["job number"] += before > 0

    @rule(
        index=log_indexes,
        collection=strategies.collections,
        limit=st.sampled_from([1, 1, 2]),
        races=st.tuples(races, races),
        events=strategies.commit_events,
    )
    def check_list(
        self, index: int, collection: str, limit: int, races: tuple[Race | None, Race | None], events: list[NewEvent]
    ) -> None:
        log_model, before = self.models[index], self.models[index].last_event_id
        query = ListQuery(log_model.server, collection, EVERYTHING, limit=limit)
        boundary = RetentionBoundary(Head(log_model.server), 0)
        page = list_objects(query, self._reader(log_model, races[0]), boundary)
        assert before <= page.event_id <= log_model.last_event_id
        expected = log_model.summaries(collection, page.event_id)
        assert page.counts == Counter(summary.state for summary in expected)
        elements = list(page.elements)
        while page.next is not None:
            self._append(log_model, events)
            query = replace(query, cursor=page.next)
            try:
                page = list_objects(query, self._reader(log_model, races[1]), boundary)
            except BadInput:
                self.paths["list interrupted"] += 1
                assert self.paths["rebuilt"] or self.paths["raced by rebuild"]
                return
            elements += page.elements
        assert elements == expected
        self.paths["list in pages"] += len(elements) > limit

    @rule(index=log_indexes, object_number=position_numbers, position_number=position_numbers, race=races)
    def check_past_state(self, index: int, object_number: int, position_number: int, race: Race | None) -> None:
        log_model = self.models[index]
        event_id, ref = self._position(log_model, position_number), self._object(log_model, object_number)
        before = log_model.state(ref, event_id)
        result = state_at(self._reader(log_model, race), log_model.server, ref, event_id)
        assert result in (before, log_model.state(ref, event_id))

    @rule(
        index=log_indexes,
        selection=strategies.selections,
        position_number=st.none() | position_numbers,
        limit=limits,
        delay_s=st.sampled_from([0, 0.5]),
        race=races,
    )
    def check_feed(
        self,
        index: int,
        selection: Selection,
        position_number: int | None,
        limit: int | None,
        delay_s: float,
        race: Race | None,
    ) -> None:
        log_model, before = self.models[index], self.models[index].last_event_id
        after = None if position_number is None else self._position(log_model, position_number)
        query = FeedQuery(log_model.server, selection, after, limit, timeout_s=1.0, delay_s=delay_s)
        event = NewEvent(type=("a", "b"), key="k")
        notifier = FakeNotifier(self.world, lambda: self._append(log_model, [event]))
        seq = long_poll_blocking(
            query, self._reader(log_model, race), notifier, Retention(self.log, self.world.clock), self._monotonic
        )
        self._check_seq(log_model, query, seq, before)

    @rule(
        index=log_indexes,
        selection=strategies.selections,
        position_number=st.none() | position_numbers,
        limit=limits,
        max_events=st.sampled_from([0, 1, 7, 30]),
        age_s=st.none() | st.sampled_from([0, 1, 60, 1_000]),
    )
    def check_feed_with_retention(
        self,
        index: int,
        selection: Selection,
        position_number: int | None,
        limit: int | None,
        max_events: int,
        age_s: int | None,
    ) -> None:
        log_model = self.models[index]
        after = None if position_number is None else self._position(log_model, position_number)
        retention, last_expired = self._retention(log_model, max_events, age_s)
        query = FeedQuery(log_model.server, selection, after, limit)
        notifier = FakeNotifier(self.world, lambda: None)
        seq = long_poll_blocking(query, self._reader(log_model), notifier, retention, self._monotonic)
        is_newest_first = limit is not None and limit < 0
        if after is not None and after < last_expired and not is_newest_first:
            assert seq == Torn(last_expired)
        else:
            self._check_seq(
                log_model, replace(query, after=max(after or 0, last_expired)), seq, log_model.last_event_id
            )

    @rule(
        index=log_indexes,
        selection=strategies.selections,
        position_number=position_numbers,
        limit=st.integers(1, 9),
        race=races,
    )
    def check_paging(
        self, index: int, selection: Selection, position_number: int, limit: int, race: Race | None
    ) -> None:
        log_model = self.models[index]
        before, start = log_model.last_event_id, self._position(log_model, position_number)
        reader, after = self._reader(log_model, race), start
        texts: list[str] = []
        for _ in range(MAX_PAGES):
            seq = self._poll(reader, FeedQuery(log_model.server, selection, after, limit))
            if isinstance(seq, Empty):
                break
            assert isinstance(seq, NonEmpty)
            texts += seq.texts
            after = seq.event_id
        assert isinstance(seq, Empty)
        assert texts == self._texts(log_model, selection, start, seq.last_event_id)
        assert seq.last_event_id >= before

    @rule(
        index=log_indexes,
        selection=strategies.selections,
        position_number=st.none() | position_numbers,
        before_number=st.none() | position_numbers,
        limit=st.integers(-9, -1),
        race=races,
    )
    def check_paging_backwards(
        self,
        index: int,
        selection: Selection,
        position_number: int | None,
        before_number: int | None,
        limit: int,
        race: Race | None,
    ) -> None:
        log_model = self.models[index]
        after = None if position_number is None else self._position(log_model, position_number)
        before = None if before_number is None else self._position(log_model, before_number)
        query = FeedQuery(log_model.server, selection, after, limit, before=before)
        reader = self._reader(log_model, race)
        seq = self._poll(reader, query)
        end = seq.event_id if isinstance(seq, NonEmpty) else seq.last_event_id if isinstance(seq, Empty) else 0
        expected = self._texts(log_model, selection, after or 0, end)[::-1]
        assert end <= (log_model.last_event_id if before is None else max(before - 1, 0))
        texts: list[str] = []
        while isinstance(seq, NonEmpty):
            texts += seq.texts
            if not seq.more_follows:
                break
            query = replace(query, before=from_json(seq.texts[-1])["eventId"])
            seq = self._poll(reader, query)
        assert texts == expected
        self.paths["paged back"] += len(texts) > -limit

    @rule(
        index=log_indexes,
        collection=strategies.collections,
        query=strategies.path_queries,
        races=st.tuples(races, races),
        events=strategies.commit_events,
    )
    def check_snapshot_and_following_events(
        self,
        index: int,
        collection: str,
        query: PathQuery,
        races: tuple[Race | None, Race | None],
        events: list[NewEvent],
    ) -> None:
        log_model = self.models[index]
        selection = ObjectSelection(collection=collection, query=query)
        first = snapshot(self._reader(log_model, races[0]), log_model.server, collection, query)
        self._append(log_model, events)
        past = self._ids_of(self._poll(self._reader(log_model), FeedQuery(log_model.server, selection)))
        before = log_model.last_event_id
        seq = self._poll(self._reader(log_model, races[1]), FeedQuery(log_model.server, selection, first.event_id))
        # Another process may append after the last read of the log.
        end = seq.event_id if isinstance(seq, NonEmpty) else seq.last_event_id if isinstance(seq, Empty) else 0
        assert end >= before
        rest = self._ids_of(seq)
        assert [event_id for event_id in past if event_id <= first.event_id] + rest == self._selected_ids(
            log_model, selection, 0, end
        )
        seq = self._poll(self._reader(log_model), FeedQuery(log_model.server, selection, end))
        rest += self._ids_of(seq)
        second = snapshot(self._reader(log_model), log_model.server, collection, query)
        new_events = [event for event in log_model.events if event.event_id in set(rest)]
        states: model.States = {ObjectRef(collection, path): state for path, state in first.states.items()}
        assert second.states == model.existing_objects(
            model.fold_events(states, new_events, model.object_filter(collection, query))
        )

    @rule(index=log_indexes, position_number=position_numbers, race=races)
    def check_position_at(self, index: int, position_number: int, race: Race | None) -> None:
        log_model = self.models[index]
        event_id = self._position(log_model, position_number)
        before = log_model.position_at(event_id)
        assert self._reader(log_model, race).position_at(log_model.server, event_id) in (
            before,
            log_model.position_at(event_id),
        )

    @rule(index=log_indexes, selection=strategies.selections, position_number=position_numbers, race=races)
    def check_commits_after(self, index: int, selection: Selection, position_number: int, race: Race | None) -> None:
        log_model = self.models[index]
        before, start = log_model.last_event_id, log_model.position_at(self._position(log_model, position_number))
        run = self._reader(log_model, race).commits_after(start, selection)
        commits = list(run.commits)
        sessions = [commit.session for commit in commits]
        assert sessions == sorted(set(sessions))
        assert all(start.session < session for session in sessions)
        complete_to = max([run.complete_to.last_event_id, *(commit.last_event_id for commit in commits)])
        assert complete_to >= before
        result = [e.wire_text for c in commits for e in c.events if model.is_selected(e, selection)]
        assert result == self._texts(log_model, selection, start.last_event_id, complete_to)
        self.paths["skipped ahead"] += len(sessions) < log_model.position_at(complete_to).session - start.session

    @rule(index=log_indexes, selection=strategies.selections, position_number=position_numbers, race=races)
    def check_commits_before(self, index: int, selection: Selection, position_number: int, race: Race | None) -> None:
        log_model = self.models[index]
        start = log_model.position_at(self._position(log_model, position_number))
        commits = list(self._reader(log_model, race).commits_before(start, selection))
        sessions = [commit.session for commit in commits]
        assert sessions == sorted(set(sessions), reverse=True)
        assert all(session <= start.session for session in sessions)
        result = [e.wire_text for c in commits for e in reversed(c.events) if model.is_selected(e, selection)]
        assert result == self._texts(log_model, selection, 0, start.last_event_id)[::-1]
        self.paths["skipped back"] += len(sessions) < start.session

    @rule(types=strategies.type_patterns, servers=st.sampled_from([[0], [1], [0, 1], [1, 0]]), race=races)
    def check_latest(self, types: tuple[tuple[str, ...], ...] | None, servers: list[int], race: Race | None) -> None:
        log_models = [self.models[index] for index in servers]
        selection, before = Selection(types=types), [each.last_event_id for each in log_models]
        reader, retention = self._reader(log_models[0], race), Retention(self.log, self.world.clock)
        page = latest([each.server for each in log_models], selection, reader, retention, 10_000)
        possible_ends = [page.event_id] if len(log_models) == 1 else [before[0], log_models[0].last_event_id]
        expected = [self._latest(log_models, [end, *before[1:]], selection) for end in possible_ends]
        assert page.texts in expected
        assert max(before) <= page.event_id <= max(each.last_event_id for each in log_models)

    @rule(
        query=st.builds(
            TimeseriesQuery,
            selection=st.builds(Selection, types=strategies.type_patterns),
            source_t_from=st.none() | st.sampled_from(strategies.SOURCES_US),
            source_t_to=st.none() | st.sampled_from(strategies.SOURCES_US),
            descending=st.booleans(),
            by_source=st.booleans(),
            max_results=st.none() | st.integers(0, 9),
        ),
        t_from=st.none() | position_numbers,
        t_to=st.none() | position_numbers,
        last=st.none() | position_numbers,
        servers=st.sampled_from([[0], [1], [0, 1], [1, 0]]),
        max_events=st.sampled_from([1, 5, 1000]),
        race=races,
    )
    def check_timeseries(
        self,
        query: TimeseriesQuery,
        t_from: int | None,
        t_to: int | None,
        last: int | None,
        servers: list[int],
        max_events: int,
        race: Race | None,
    ) -> None:
        log_models = [self.models[index] for index in servers]
        query = replace(
            query,
            t_from=None if t_from is None else self._time(log_models[0], t_from),
            t_to=None if t_to is None else self._time(log_models[-1], t_to),
            last_event_id=self._event_position(log_models, last),
        )
        before = self._timeseries(log_models, query)
        reader, retention = self._reader(log_models[0], race), Retention(self.log, self.world.clock)
        page = timeseries(query, [each.server for each in log_models], reader, retention, max_events)
        limit = min(max_events, max_events if query.max_results is None else query.max_results)
        expected = [(texts[:limit], len(texts) <= limit) for texts in (before, self._timeseries(log_models, query))]
        assert (page.texts, page.is_complete) in expected

    @rule(t_from=position_numbers, t_to=position_numbers, descending=st.booleans())
    def check_time_range(self, t_from: int, t_to: int, descending: bool) -> None:
        log_model = self.models[0]
        query = TimeseriesQuery(
            Selection(), self._time(log_model, t_from), self._time(log_model, t_to), descending=descending
        )
        page = timeseries(
            query, [log_model.server], self._reader(log_model), Retention(self.log, self.world.clock), 10_000
        )
        assert page.texts == self._timeseries([log_model], query)

    @rule(
        query=st.builds(
            TimeseriesQuery,
            selection=st.builds(Selection, types=strategies.type_patterns),
            descending=st.booleans(),
            by_source=st.booleans(),
        ),
        t_from=st.none() | position_numbers,
        max_events=st.sampled_from([0, 1, 7, 30]),
        age_s=st.none() | st.sampled_from([0, 1, 60, 1_000]),
    )
    def check_queries_with_retention(
        self, query: TimeseriesQuery, t_from: int | None, max_events: int, age_s: int | None
    ) -> None:
        log_model = self.models[0]
        retention, last_expired = self._retention(log_model, max_events, age_s)
        query = replace(query, t_from=None if t_from is None else self._time(log_model, t_from))
        visible_events = log_model.between(last_expired, log_model.last_event_id)
        page = timeseries(query, [log_model.server], self._reader(log_model), retention, 10_000)
        assert page.texts == [event.wire_text for event in model.timeseries(query, visible_events, log_model.events)]
        newest = latest([log_model.server], query.selection, self._reader(log_model), retention, 10_000)
        assert newest.texts == [event.wire_text for event in model.latest(visible_events, query.selection)]

    @rule(
        index=log_indexes,
        selection=strategies.item_queries,
        position_number=position_numbers,
        events=strategies.commit_events,
        race=races,
    )
    def check_append_condition(
        self,
        index: int,
        selection: Selection,
        position_number: int,
        events: list[NewEvent],
        race: Race | None,
    ) -> None:
        log_model = self.models[index]
        after = min(self._position(log_model, position_number), log_model.last_event_id)
        condition = AppendCondition(fail_if_events_match=selection, after=after)
        append = Append(log_model.server, encode_within_limits(events), f"request {next(self.requests)}", condition)
        reader = self._reader(log_model, race)
        appender = Appender(self.log, self.world.clock, self.world.pause, self._monotonic, reader)
        try:
            outcome: Appended | ConditionFailed = appender.append(append)
        except ConditionFailed as refusal:
            outcome = refusal
        matches = self._selected_ids(log_model, selection, after, log_model.last_event_id)
        if isinstance(outcome, Appended):
            assert matches == []
            log_model.add(outcome.commit)
            self.paths["append granted"] += 1
        else:
            assert outcome.event_id == matches[0]
            self.paths["append refused"] += 1

    def teardown(self) -> None:
        for log_model in self.models:
            for collection in vocabularies.collections():
                result = snapshot(self._reader(log_model), log_model.server, collection, EVERYTHING)
                assert result.states == log_model.snapshot(collection, EVERYTHING, log_model.last_event_id)

    def _check_first_page(self, log_model: LogModel, collection: str) -> None:
        query = ListQuery(log_model.server, collection, EVERYTHING)
        page = list_objects(query, self._reader(log_model), RetentionBoundary(Head(log_model.server), 0))
        expected = log_model.summaries(collection, log_model.last_event_id)
        assert (page.event_id, list(page.elements)) == (log_model.last_event_id, expected)
        assert page.counts == Counter(summary.state for summary in expected)
        assert page.results == Counter(summary.result for summary in expected if summary.result)

    def _poll(self, reader: LogReader, query: FeedQuery) -> EventSeq:
        notifier = FakeNotifier(self.world, lambda: None)
        return long_poll_blocking(query, reader, notifier, Retention(self.log, self.world.clock), self._monotonic)

    def _check_seq(self, log_model: LogModel, query: FeedQuery, seq: EventSeq, before: int) -> None:
        """Compare a result with the model. `before` is the last EventId before the read."""
        after, limit = query.after or 0, query.limit
        match seq:
            case NonEmpty(event_id, texts, more_follows):
                expected = self._texts(log_model, query.selection, after, event_id)
                if limit is not None and limit < 0:
                    assert more_follows or len(texts) == len(expected)
                    expected = expected[: limit - 1 : -1]
                assert texts == expected
                assert len(texts) == abs(limit or 0) if more_follows else event_id >= before
                assert event_id >= before or (limit is not None and 0 < limit == len(texts))
                assert limit is None or 0 < len(texts) <= abs(limit)
            case Empty(last_event_id, more_follows):
                assert not more_follows
                assert self._texts(log_model, query.selection, after, last_event_id) == []
                assert before <= last_event_id <= log_model.last_event_id
            case Torn():
                raise AssertionError("nothing has expired")

    def _texts(self, log_model: LogModel, selection: Selection, after: int, to: int) -> list[str]:
        return [event.wire_text for event in log_model.between(after, to) if model.is_selected(event, selection)]

    def _selected_ids(self, log_model: LogModel, selection: Selection, after: int, to: int) -> list[int]:
        return [event.event_id for event in log_model.between(after, to) if model.is_selected(event, selection)]

    def _ids_of(self, seq: EventSeq) -> list[int]:
        return [from_json(text)["eventId"] for text in seq.texts] if isinstance(seq, NonEmpty) else []

    def _latest(self, log_models: Sequence[LogModel], ends: Sequence[int], selection: Selection) -> list[str]:
        visible_events = [event for each, end in zip(log_models, ends, strict=True) for event in each.between(0, end)]
        return [event.wire_text for event in model.latest(visible_events, selection)]

    def _timeseries(self, log_models: Sequence[LogModel], query: TimeseriesQuery) -> list[str]:
        events = [event for each in log_models for event in each.events]
        return [event.wire_text for event in model.timeseries(query, events, events)]
