"""`observe` completes any backlog in invocations of limited time, with the SQS outbox and simulated time.

Every call to SQS takes 8 ms of simulated time, as if no two calls ran at the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pytest

from chalicelib.adapters.queue.sqs_outbox import SqsOutbox
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import MAX_EVENTS
from chalicelib.domain.notifications.delivery_message import DeliveryMessage
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.services.calm.decisions import CalmDecisions
from chalicelib.services.calm.states import CalmStates
from chalicelib.services.consumers.consumer import RunSizes, catch_up
from chalicelib.services.consumers.due_index import DueIndex
from chalicelib.services.consumers.for_each import for_each_in_time
from chalicelib.services.notifications.matching import ObserverMatcher
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.notifications.replay import MAX_PART_DELIVERIES, Replayer
from chalicelib.services.notifications.validation import MAX_ADDRESSES
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews
from chalicelib.services.reading.retention import Retention
from tests.services.fakes import NOW_MS, World, append

CALL_S = 0.008
FUNCTION_TIMEOUT_S = 29.0
RESPONSE_RESERVE_S = 1.5


@dataclass
class SimulatedSqs:
    """A FIFO queue without consumers, as a client. It drops duplicates and times out with the function."""

    now_s: float = 0.0
    deadline_s: float = 0.0
    calls: int = 0
    messages: dict[str, DeliveryMessage] = field(default_factory=dict)
    """By deduplication id, in the order of arrival."""
    duplicates: int = 0
    lock: Lock = field(default_factory=Lock)

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "SendMessageBatch"
        entries = params["Entries"]
        assert 0 < len(entries) <= 10
        with self.lock:
            if self.now_s > self.deadline_s:
                raise Unavailable("SQS was not called: the time for this request is used up")
            self.now_s += CALL_S
            self.calls += 1
            for entry in entries:
                self.duplicates += entry["MessageDeduplicationId"] in self.messages
                message = DeliveryMessage.parse(entry["MessageBody"])
                self.messages.setdefault(entry["MessageDeduplicationId"], message)
        return {"Successful": [{"Id": entry["Id"]} for entry in entries]}


class Function:
    """The function `observe`, invoked by a stream until it has caught up."""

    def __init__(self, log: SqliteLog, views: SqliteViews, world: World, addresses: int) -> None:
        self.log, self.views, self.world, self.sqs = log, views, world, SimulatedSqs()
        self.outbox = SqsOutbox(lambda: self.sqs, "q", views)
        self.observers = ObserverRegistry(log, world.appender(log))
        config = {"to": ", ".join(f"user{n}" for n in range(addresses))}
        self.observers.put(1, "ops", Configuration(channel="app", types=["job/*"], config=config))
        self.reader = LogReader(log, NoViews())
        self.calm = CalmDecisions(CalmStates(views), DueIndex(views, world.clock, {}), lambda *_: True)
        self.matcher = ObserverMatcher(self.observers, self.reader, self.outbox, self.calm, lambda: self.sqs.now_s)
        self.sizes = RunSizes()
        self.durations_s: list[float] = []

    def publish(self, *keys: str) -> None:
        self.world.appender(self.log).append(append(*keys, request_id=f"r{self.log.head(1).session}"))

    def run(self) -> None:
        """Invoke the function until it reports no failure."""
        while self._invoke():
            assert len(self.durations_s) < 30, "it makes no progress"

    def _invoke(self) -> set[int]:
        sqs, started_s = self.sqs, self.sqs.now_s
        sqs.deadline_s = started_s + FUNCTION_TIMEOUT_S - RESPONSE_RESERVE_S
        unfinished = for_each_in_time(
            [1],
            lambda server, has_time: catch_up(
                self.matcher.consumer, server, self.log, self.views, has_time=has_time, sizes=self.sizes
            ),
            lambda: 1000 * (started_s + FUNCTION_TIMEOUT_S - sqs.now_s),
        )
        self.durations_s.append(sqs.now_s - started_s)
        return unfinished


@pytest.mark.parametrize(
    ("commits", "keys", "addresses", "max_calls"),
    [
        (200, ["/k"] * 20, 1, 410),
        (4, ["/k"] * MAX_EVENTS, 1, 410),
        (200, [f"/{n}" for n in range(20)], 20, 8_800),
        (1, ["/k"] * MAX_EVENTS, MAX_ADDRESSES, 10_010),
    ],
    ids=["many small commits", "four full commits", "twenty keys and addresses", "one full commit, 100 addresses"],
)
def test_observe_completes_backlog_in_time(
    commits: int,
    keys: list[str],
    addresses: int,
    max_calls: int,
    log: SqliteLog,
    sqlite_views: SqliteViews,
    world: World,
) -> None:
    function = Function(log, sqlite_views, world, addresses)
    for _ in range(commits):
        function.publish(*keys)
    function.run()
    sqs = function.sqs
    events = [Id(1, session + 1, instance + 1) for session in range(commits) for instance in range(len(keys))]
    assert len(sqs.messages) == len(events) * addresses
    assert (sqs.duplicates, sqs.calls <= max_calls) == (0, True)
    assert max(function.durations_s) < FUNCTION_TIMEOUT_S
    deliveries = [message.delivery for message in sqs.messages.values()]
    recipient = keys[0], deliveries[0].address
    assert [delivery.event for delivery in deliveries if (delivery.key, delivery.address) == recipient] == [
        event for event in events if keys[event.instance - 1] == keys[0]
    ]


def test_observe_interrupted_by_timeout_keeps_progress(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    """The queue becomes so slow that the function runs out of time in the middle of a batch."""
    function = Function(log, sqlite_views, world, MAX_ADDRESSES)
    function.publish(*["/k"] * 100)
    function.sqs.deadline_s = 5.0
    with pytest.raises(Unavailable):
        catch_up(function.matcher.consumer, 1, log, sqlite_views)
    sent = len(function.sqs.messages)
    assert 5_000 < sent < 10_000
    function.run()
    assert len(function.sqs.messages) == 10_000
    assert function.sqs.duplicates <= 1_000


def test_observer_created_during_backlog_sees_later_events(
    log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    """Its name comes before the one in the stored position, and its first event after the backlog."""
    function = Function(log, sqlite_views, world, MAX_ADDRESSES)
    function.publish(*["/k"] * 100)
    consumer = function.matcher.consumer
    function.sqs.deadline_s = 1e9
    assert not catch_up(consumer, 1, log, sqlite_views, has_time=lambda: False)
    function.observers.put(1, "early", Configuration(channel="app", types=["job/*"], config={"to": "anna"}))
    function.publish("/k")
    assert catch_up(consumer, 1, log, sqlite_views)
    observers = [message.delivery.observer for message in function.sqs.messages.values()]
    assert (observers.count("ops"), observers.count("early")) == (101 * MAX_ADDRESSES, 1)


def test_replay_splits_large_commit_into_parts(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    function = Function(log, sqlite_views, world, MAX_ADDRESSES)
    function.publish(*["/k"] * 100)
    function.sqs.deadline_s = 1e9
    replayer = Replayer(
        function.reader,
        Retention(log, lambda: NOW_MS),
        function.matcher,
        function.outbox,
        function.observers,
        function.calm,
        world.monotonic,
    )
    observer, after, parts = function.observers.get(1, "ops"), 0, list[int]()
    while True:
        progress = replayer.run(1, observer, after, None, "r1")
        parts.append(progress.deliveries)
        after = progress.event_id
        if progress.is_done:
            break
    assert parts == [MAX_PART_DELIVERIES] * 5
    assert (len(function.sqs.messages), function.sqs.duplicates) == (10_000, 0)
