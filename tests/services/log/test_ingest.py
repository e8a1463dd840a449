"""Ingest writes queued messages in order, exactly once, as one commit per organization and batch."""

from collections.abc import Sequence

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, NoSuchOrganization, Unavailable
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.log.ingest_message import IngestFailure, IngestMessage
from chalicelib.services.log.ingest import MAX_CLOCK_SKEW_MS, ingest
from chalicelib.services.log.organizations import Organizations
from tests.services.fakes import NOW_MS, World, append, keys, large_text, text

FIRST_SEQUENCE = 10**19


class Queue:
    """Delivers batches of messages to `ingest`."""

    def __init__(self, log: SqliteLog, world: World) -> None:
        self.log = log
        self.world = world
        self.organizations = Organizations(log, world.appender(log))
        self.organizations.create("acme")
        self.organizations.create("other")

    def deliver(self, *messages: IngestMessage) -> list[str]:
        """Deliver a batch and return the ids of the messages that failed."""
        return [failure.message_id for failure in self.failures(*messages)]

    def failures(self, *messages: IngestMessage) -> Sequence[IngestFailure]:
        return ingest(messages, self.organizations, self.world.appender(self.log), self.log)


def message(number: int, *keys: str, org: str = "acme", first_received_ms: int = 0) -> IngestMessage:
    """A message with one event per key."""
    return IngestMessage(
        f"m{number}", org, FIRST_SEQUENCE + number, first_received_ms, tuple(text(key) for key in keys)
    )


def unreadable_message(number: int, org: str = "acme") -> IngestMessage:
    """A message that cannot be parsed."""
    return IngestMessage(f"m{number}", org, FIRST_SEQUENCE + number, 0, BadInput("unreadable"))


def redelivered(*messages: IngestMessage) -> list[IngestMessage]:
    """The same messages, delivered a second time."""
    return [IngestMessage(m.message_id, m.organization, m.sequence, NOW_MS, m.texts) for m in messages]


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


def test_unreadable_message_fails_later_ones_of_organization(queue: Queue) -> None:
    failed = queue.deliver(message(1, "/1"), unreadable_message(2), message(3, "/3"), message(4, "/a", org="other"))
    assert (failed, keys(queue.log, 1), keys(queue.log, 2)) == (["m2", "m3"], [(1, "/1")], [(1, "/a")])


def test_failure_contains_reason(queue: Queue) -> None:
    (failure,) = queue.failures(unreadable_message(1))
    assert (failure.message_id, type(failure.reason), str(failure.reason)) == ("m1", BadInput, "unreadable")


def test_unknown_organization_fails_only_its_messages(queue: Queue) -> None:
    failures = queue.failures(message(1, "/1"), message(2, "/x", org="unknown"), message(3, "/y", org="unknown"))
    assert [(failure.message_id, type(failure.reason)) for failure in failures] == [
        ("m2", NoSuchOrganization),
        ("m3", NoSuchOrganization),
    ]
    assert keys(queue.log) == [(1, "/1")]


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
    assert queue.deliver(message(1, "/1", first_received_ms=ahead)) == []
    assert keys(queue.log) == [(1, "/1")]


def test_failed_messages_are_written_in_order_when_redelivered(queue: Queue) -> None:
    assert queue.deliver(message(1, "/1"), unreadable_message(2), message(3, "/3")) == ["m2", "m3"]
    assert queue.deliver(*redelivered(message(2, "/2"), message(3, "/3")), message(4, "/4")) == []
    assert keys(queue.log) == [(1, "/1"), (2, "/2"), (2, "/3"), (2, "/4")]


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
    assert queue.deliver(*(IngestMessage(f"m{n}", "acme", FIRST_SEQUENCE + n, 0, texts) for n in range(1, 6))) == []
    assert [(commit.session, commit.event_count) for commit in queue.log.read(1, 0)] == [(1, 2), (2, 2), (3, 1)]


def test_batch_fails_unwritten_messages_if_store_is_down(database: Database, world: World) -> None:
    class DyingLog(SqliteLog):
        """Fails to write any commit of server 1 after the first."""

        def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
            if any(commit.server == 1 and commit.session > 1 for commit in commits):
                world.elapsed_s += 60
                raise Unavailable("no answer")
            super().append(commits, receipts, now_s)

    queue = Queue(DyingLog(database), world)
    batch = [message(1, *["/k"] * MAX_EVENTS), message(2, "/2"), message(3, "/a", org="other"), message(4, "/4")]
    assert queue.deliver(*batch) == ["m2", "m4"]
    assert [len(keys(queue.log, server)) for server in (1, 2)] == [MAX_EVENTS, 1]


def test_redelivered_batch_after_lost_response_is_found(database: Database, world: World) -> None:
    class NoResponseLog(SqliteLog):
        """Writes, but raises `Unavailable` while `is_mute`."""

        is_mute = False

        def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
            super().append(commits, receipts, now_s)
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
