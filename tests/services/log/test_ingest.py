"""Ingest writes queued messages in order, exactly once, as one commit per organization and batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, NoSuchOrganization, Refused, Unavailable
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.log.ingest_message import IngestMessage
from chalicelib.services.log.ingest import MAX_CLOCK_SKEW_MS, Ingester
from chalicelib.services.log.organizations import Organizations
from tests.services.fakes import NOW_MS, World, append, keys, large_text, text

FIRST_SEQUENCE = 10**19


@dataclass
class Queue:
    """Delivers batches of messages to `Ingester`. Implements `IngestQueue`."""

    log: SqliteLog
    world: World
    put_asides: list[tuple[str, str]] = field(default_factory=list)
    """Message id and reason of each message in the dead-letter queue."""
    postponed: list[tuple[list[str], float]] = field(default_factory=list)
    """Receipts and delay of each postponed group."""
    failing: set[str] = field(default_factory=set)
    """Operations that raise `Unavailable`."""

    def __post_init__(self) -> None:
        self.organizations = Organizations(self.log, self.world.appender(self.log))
        self.organizations.create("acme")
        self.organizations.create("other")

    def deliver(self, *messages: IngestMessage) -> list[str]:
        """Deliver a batch and return the ids of the messages to be delivered again."""
        appender = self.world.appender(self.log)
        return Ingester(self.organizations, appender, self.log, self, jitter=lambda: 1.0).ingest(messages)

    def put_aside(self, message: IngestMessage, reason: str) -> None:
        self._fail_if("put_aside")
        self.put_asides.append((message.message_id, reason))

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        self._fail_if("postpone")
        self.postponed.append((list(receipts), delay_s))

    def _fail_if(self, operation: str) -> None:
        if operation in self.failing:
            raise Unavailable(f"no answer to {operation}")


class DyingLog(SqliteLog):
    """Fails to write any commit of server 1 after the first."""

    def __init__(self, database: Database, world: World) -> None:
        super().__init__(database)
        self._world = world

    def append(self, commits: Sequence[Commit]) -> None:
        if any(commit.server == 1 and commit.session > 1 for commit in commits):
            self._world.elapsed_s += 60
            raise Unavailable("no answer")
        super().append(commits)


def message(
    number: int, *keys: str, org: str = "acme", receives: int = 1, first_received_ms: int = NOW_MS
) -> IngestMessage:
    """A message with one event per key."""
    return a_message(number, tuple(text(key) for key in keys), org, receives, first_received_ms)


def a_message(
    number: int,
    texts: tuple[str, ...] | Refused,
    org: str = "acme",
    receives: int = 1,
    first_received_ms: int = NOW_MS,
) -> IngestMessage:
    return IngestMessage(
        f"m{number}", f"r{number}", org, FIRST_SEQUENCE + number, receives, first_received_ms, "body", texts
    )


def unreadable_message(number: int, org: str = "acme") -> IngestMessage:
    """A message that cannot be parsed."""
    return a_message(number, BadInput("unreadable"), org)


def redelivered(*messages: IngestMessage) -> list[IngestMessage]:
    """The same messages, delivered a second time."""
    return [replace(message, receives=2) for message in messages]


@pytest.fixture
def queue(log: SqliteLog, world: World) -> Queue:
    return Queue(log, world)


def test_batch_becomes_one_commit_per_organization(queue: Queue) -> None:
    failed = queue.deliver(
        message(1, "/1", "/2"), message(2, "/a", org="other"), message(3, "/3"), message(4, "/b", org="other")
    )
    assert (failed, keys(queue.log, 1), keys(queue.log, 2)) == (
        [],
        [(1, "/1"), (1, "/2"), (1, "/3")],
        [(1, "/a"), (1, "/b")],
    )


def test_batch_is_written_in_sequence_order(queue: Queue) -> None:
    assert queue.deliver(message(10, "/10"), message(9, "/9"), message(11, "/11")) == []
    assert keys(queue.log) == [(1, "/9"), (1, "/10"), (1, "/11")]


def test_good_messages_around_bad_one_are_written_at_once(queue: Queue) -> None:
    good = [message(n, f"/{n}") for n in range(2, 11)]
    assert queue.deliver(unreadable_message(1), *good, message(11, "/a", org="other")) == []
    assert (keys(queue.log, 1), keys(queue.log, 2)) == ([(1, f"/{n}") for n in range(2, 11)], [(1, "/a")])
    assert (queue.put_asides, queue.postponed) == ([("m1", "BadInput: unreadable")], [])


def test_messages_of_unknown_organization_are_put_aside(queue: Queue) -> None:
    assert queue.deliver(message(1, "/1"), message(2, "/x", org="unknown"), message(3, "/y", org="unknown")) == []
    reason = f"NoSuchOrganization: {NoSuchOrganization('unknown')}"
    assert (queue.put_asides, keys(queue.log)) == ([("m2", reason), ("m3", reason)], [(1, "/1")])


def test_bad_message_waits_while_dead_letter_queue_is_down(queue: Queue) -> None:
    """If later messages were written, the sequence number in the log would make ingest skip the bad one."""
    queue.failing = {"put_aside"}
    batch = [message(1, "/1"), unreadable_message(2), message(3, "/3")]
    assert queue.deliver(*batch, message(4, "/a", org="other")) == ["m1", "m2", "m3"]
    assert (keys(queue.log, 1), keys(queue.log, 2)) == ([], [(1, "/a")])
    queue.failing = set()
    assert queue.deliver(*redelivered(*batch)) == []
    assert (keys(queue.log), queue.put_asides) == ([(1, "/1"), (1, "/3")], [("m2", "BadInput: unreadable")])


def test_redelivered_bad_message_of_written_batch_is_done(queue: Queue) -> None:
    batch = [unreadable_message(1), message(2, "/2")]
    assert queue.deliver(*batch) == queue.deliver(*redelivered(*batch)) == []
    assert (keys(queue.log), len(queue.put_asides)) == ([(1, "/2")], 1)


@pytest.mark.parametrize(("receives", "delay_s"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 16.0), (5, 30.0), (900, 30.0)])
def test_temporary_failure_is_retried_soon(receives: int, delay_s: float, database: Database, world: World) -> None:
    queue = Queue(DyingLog(database, world), world)
    queue.deliver(message(1, "/1"))
    assert queue.deliver(message(2, "/2", receives=receives), message(3, "/3")) == ["m2", "m3"]
    assert queue.postponed == [(["r2", "r3"], delay_s)]


def test_failure_to_postpone_is_logged(database: Database, world: World, caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue(DyingLog(database, world), world, failing={"postpone"})
    queue.deliver(message(1, "/1"))
    assert queue.deliver(message(2, "/2")) == ["m2"]
    assert caplog.messages == [
        "1 messages from m2 on are not ingested yet: Unavailable: no answer",
        "message m2 and its successors are retried late: Unavailable: no answer to postpone",
    ]


def test_redelivered_batch_is_not_written_again(queue: Queue) -> None:
    batch = [message(1, "/1"), message(2, "/2"), message(3, "/a", org="other")]
    assert queue.deliver(*batch) == queue.deliver(*redelivered(*batch)) == []
    assert (keys(queue.log, 1), keys(queue.log, 2)) == ([(1, "/1"), (1, "/2")], [(1, "/a")])


def test_redelivered_batch_with_new_messages_writes_only_new(queue: Queue) -> None:
    queue.deliver(message(1, "/1"), message(2, "/2"))
    assert queue.deliver(*redelivered(message(1, "/1"), message(2, "/2")), message(3, "/3"), message(4, "/4")) == []
    assert keys(queue.log) == [(1, "/1"), (1, "/2"), (2, "/3"), (2, "/4")]


def test_redelivered_unwritten_batch_is_written(queue: Queue) -> None:
    assert queue.deliver(*redelivered(message(1, "/1"), message(2, "/2"))) == []
    assert keys(queue.log) == [(1, "/1"), (1, "/2")]


def test_redelivered_batch_is_found_behind_other_commits(queue: Queue) -> None:
    batch = [message(1, "/1"), message(2, "/2")]
    queue.deliver(*batch)
    for number in range(3):
        queue.world.appender(queue.log).append(append(f"/http/{number}", request_id=f"http {number}"))
    assert queue.deliver(*redelivered(*batch)) == []
    assert keys(queue.log) == [(1, "/1"), (1, "/2"), (2, "/http/0"), (3, "/http/1"), (4, "/http/2")]


def test_redelivered_batch_with_clock_skew_is_recognized(queue: Queue) -> None:
    """The queue's clock is ahead of the writer's."""
    queue.deliver(message(1, "/1"))
    ahead = NOW_MS + MAX_CLOCK_SKEW_MS
    assert queue.deliver(message(1, "/1", receives=2, first_received_ms=ahead)) == []
    assert keys(queue.log) == [(1, "/1")]


def test_message_without_events_succeeds(queue: Queue) -> None:
    assert queue.deliver(message(1), message(2)) == []
    assert keys(queue.log) == []
    assert queue.deliver(message(3), message(4, "/4"), message(5)) == []
    assert keys(queue.log) == [(1, "/4")]


def test_empty_batch_succeeds(queue: Queue) -> None:
    assert queue.deliver() == []


@pytest.mark.parametrize(
    ("batch", "sessions"),
    [
        ([MAX_EVENTS - 1, 1, 1], [MAX_EVENTS, 1]),
        ([MAX_EVENTS, MAX_EVENTS, 1], [MAX_EVENTS, MAX_EVENTS, 1]),
        ([1, MAX_EVENTS, 1], [1, MAX_EVENTS, 1]),
    ],
)
def test_batch_with_too_many_events_becomes_several_commits(
    batch: list[int], sessions: list[int], queue: Queue
) -> None:
    messages = [message(number, *["/k"] * events) for number, events in enumerate(batch, start=1)]
    assert queue.deliver(*messages) == []
    assert [commit.event_count for commit in queue.log.read(1, 0)] == sessions
    assert queue.deliver(*redelivered(*messages)) == []
    assert [commit.event_count for commit in queue.log.read(1, 0)] == sessions


def test_batch_with_too_many_bytes_becomes_several_commits(queue: Queue) -> None:
    texts = (large_text(MAX_BYTES // 2 - 200),)
    assert queue.deliver(*(a_message(n, texts) for n in range(1, 6))) == []
    assert [(commit.session, commit.event_count) for commit in queue.log.read(1, 0)] == [(1, 2), (2, 2), (3, 1)]


def test_batch_fails_unwritten_messages_if_store_is_down(database: Database, world: World) -> None:
    queue = Queue(DyingLog(database, world), world)
    batch = [message(1, *["/k"] * MAX_EVENTS), message(2, "/2"), message(3, "/a", org="other"), message(4, "/4")]
    assert queue.deliver(*batch) == ["m2", "m4"]
    assert [len(keys(queue.log, server)) for server in (1, 2)] == [MAX_EVENTS, 1]
    assert queue.postponed == [(["r2", "r4"], 2.0)]


def test_redelivered_batch_after_lost_response_is_found(database: Database, world: World) -> None:
    class NoResponseLog(SqliteLog):
        """Writes, but raises `Unavailable` while `is_mute`."""

        is_mute = False

        def append(self, commits: Sequence[Commit]) -> None:
            super().append(commits)
            if self.is_mute:
                world.elapsed_s += 60
                raise Unavailable("no answer")

    log = NoResponseLog(database)
    queue = Queue(log, world)
    log.is_mute = True
    assert queue.deliver(message(1, "/1"), message(2, "/2")) == ["m1", "m2"]
    log.is_mute = False
    assert queue.deliver(*redelivered(message(1, "/1"), message(2, "/2"))) == []
    assert keys(log) == [(1, "/1"), (1, "/2")]
