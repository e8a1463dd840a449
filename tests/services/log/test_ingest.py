"""Ingesting queued messages: in order, exactly once, one commit per organization and batch."""

from collections.abc import Sequence

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, NoSuchOrganization, Unavailable
from chalicelib.domain.log.append import MOST_BYTES, MOST_EVENTS, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.log.ingest_message import Failure, Message
from chalicelib.services.log.ingest import CLOCKS_DIFFER_MS, ingest
from chalicelib.services.log.organizations import Organizations
from tests.services.worlds import NOW_MS, World, append, keys, large_text, text

FIRST = 10**19


class Queue:
    """Brings batches of messages to the services under test."""

    def __init__(self, log: SqliteLog, world: World) -> None:
        self.log = log
        self.world = world
        self.organizations = Organizations(log, world.appender(log))
        self.organizations.create("acme")
        self.organizations.create("other")

    def bring(self, *messages: Message) -> list[str]:
        """Deliver a batch; the ids of the messages that have to come again."""
        return [failure.message_id for failure in self.failures(*messages)]

    def failures(self, *messages: Message) -> Sequence[Failure]:
        return ingest(messages, self.organizations, self.world.appender(self.log), self.log)


def message(number: int, *keys: str, org: str = "acme", again_since_ms: int = 0) -> Message:
    """A message with an event for each key."""
    return Message(f"m{number}", org, FIRST + number, again_since_ms, tuple(text(key) for key in keys))


def unreadable(number: int, org: str = "acme") -> Message:
    """A message that nobody can read."""
    return Message(f"m{number}", org, FIRST + number, 0, BadInput("unreadable"))


def again(*messages: Message) -> list[Message]:
    """The same messages, delivered once more."""
    return [Message(m.message_id, m.organization, m.sequence, NOW_MS, m.texts) for m in messages]


@pytest.fixture
def queue(log: SqliteLog, world: World) -> Queue:
    return Queue(log, world)


def test_a_batch_becomes_one_commit_per_organization(queue: Queue) -> None:
    failed = queue.bring(
        message(1, "/1", "/2"), message(2, "/a", org="other"), message(3, "/3"), message(4, "/b", org="other")
    )
    assert (failed, keys(queue.log, 1), keys(queue.log, 2)) == (
        [],
        [(1, "/1"), (1, "/2"), (1, "/3")],
        [(1, "/a"), (1, "/b")],
    )


def test_messages_are_written_in_the_order_of_the_queue(queue: Queue) -> None:
    assert queue.bring(message(10, "/10"), message(9, "/9"), message(11, "/11")) == []
    assert keys(queue.log) == [(1, "/9"), (1, "/10"), (1, "/11")]


def test_a_message_that_cannot_be_read_holds_up_only_those_behind_it_in_its_organization(queue: Queue) -> None:
    failed = queue.bring(message(1, "/1"), unreadable(2), message(3, "/3"), message(4, "/a", org="other"))
    assert (failed, keys(queue.log, 1), keys(queue.log, 2)) == (["m2", "m3"], [(1, "/1")], [(1, "/a")])


def test_the_reason_of_a_failure_is_told(queue: Queue) -> None:
    (failure,) = queue.failures(unreadable(1))
    assert (failure.message_id, type(failure.reason), str(failure.reason)) == ("m1", BadInput, "unreadable")


def test_an_unknown_organization_fails_only_its_own_messages(queue: Queue) -> None:
    failures = queue.failures(message(1, "/1"), message(2, "/x", org="nobody"), message(3, "/y", org="nobody"))
    assert [(failure.message_id, type(failure.reason)) for failure in failures] == [
        ("m2", NoSuchOrganization),
        ("m3", NoSuchOrganization),
    ]
    assert keys(queue.log) == [(1, "/1")]


def test_a_batch_that_comes_again_is_not_written_again(queue: Queue) -> None:
    batch = [message(1, "/1"), message(2, "/2"), message(3, "/a", org="other")]
    assert queue.bring(*batch) == queue.bring(*again(*batch)) == []
    assert (keys(queue.log, 1), keys(queue.log, 2)) == ([(1, "/1"), (1, "/2")], [(1, "/a")])


def test_of_a_batch_that_comes_again_with_more_only_the_new_is_written(queue: Queue) -> None:
    queue.bring(message(1, "/1"), message(2, "/2"))
    assert queue.bring(*again(message(1, "/1"), message(2, "/2")), message(3, "/3"), message(4, "/4")) == []
    assert keys(queue.log) == [(1, "/1"), (1, "/2"), (2, "/3"), (2, "/4")]


def test_what_comes_again_but_was_never_written_is_written(queue: Queue) -> None:
    assert queue.bring(*again(message(1, "/1"), message(2, "/2"))) == []
    assert keys(queue.log) == [(1, "/1"), (1, "/2")]


def test_what_others_wrote_meanwhile_hides_nothing(queue: Queue) -> None:
    batch = [message(1, "/1"), message(2, "/2")]
    queue.bring(*batch)
    for number in range(3):
        queue.world.appender(queue.log).append(append(f"/http/{number}", request_id=f"http {number}"))
    assert queue.bring(*again(*batch)) == []
    assert keys(queue.log) == [(1, "/1"), (1, "/2"), (2, "/http/0"), (3, "/http/1"), (4, "/http/2")]


def test_clocks_may_differ(queue: Queue) -> None:
    """The queue's clock is ahead of the writer's."""
    queue.bring(message(1, "/1"))
    ahead = NOW_MS + CLOCKS_DIFFER_MS
    assert queue.bring(message(1, "/1", again_since_ms=ahead)) == []
    assert keys(queue.log) == [(1, "/1")]


def test_what_failed_comes_again_and_is_written_in_order(queue: Queue) -> None:
    assert queue.bring(message(1, "/1"), unreadable(2), message(3, "/3")) == ["m2", "m3"]
    assert queue.bring(*again(message(2, "/2"), message(3, "/3")), message(4, "/4")) == []
    assert keys(queue.log) == [(1, "/1"), (2, "/2"), (2, "/3"), (2, "/4")]


def test_a_message_without_events_is_done(queue: Queue) -> None:
    assert queue.bring(message(1), message(2)) == []
    assert keys(queue.log) == []
    assert queue.bring(message(3), message(4, "/4"), message(5)) == []
    assert keys(queue.log) == [(1, "/4")]


def test_an_empty_batch_is_done(queue: Queue) -> None:
    assert queue.bring() == []


@pytest.mark.parametrize(
    ("batch", "sessions"),
    [
        ([MOST_EVENTS - 1, 1, 1], [MOST_EVENTS, 1]),
        ([MOST_EVENTS, MOST_EVENTS, 1], [MOST_EVENTS, MOST_EVENTS, 1]),
        ([1, MOST_EVENTS, 1], [1, MOST_EVENTS, 1]),
    ],
)
def test_a_batch_with_more_events_than_a_commit_may_have_becomes_several(
    batch: list[int], sessions: list[int], queue: Queue
) -> None:
    messages = [message(number, *["/k"] * events) for number, events in enumerate(batch, start=1)]
    assert queue.bring(*messages) == []
    assert [commit.n for commit in queue.log.read(1, 0)] == sessions
    assert queue.bring(*again(*messages)) == []
    assert [commit.n for commit in queue.log.read(1, 0)] == sessions


def test_a_batch_with_more_bytes_than_a_commit_may_have_becomes_several(queue: Queue) -> None:
    texts = (large_text(MOST_BYTES // 2 - 200),)
    assert queue.bring(*(Message(f"m{n}", "acme", FIRST + n, 0, texts) for n in range(1, 6))) == []
    assert [(commit.session, commit.n) for commit in queue.log.read(1, 0)] == [(1, 2), (2, 2), (3, 1)]


def test_when_the_store_does_not_answer_everything_unwritten_comes_again(database: Database, world: World) -> None:
    class Dying(SqliteLog):
        """Writes the first commit of a server's log, and no more after that."""

        def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
            if any(commit.server == 1 and commit.session > 1 for commit in commits):
                world.elapsed_s += 60
                raise Unavailable("no answer")
            super().append(commits, receipts, now_s)

    queue = Queue(Dying(database), world)
    batch = [message(1, *["/k"] * MOST_EVENTS), message(2, "/2"), message(3, "/a", org="other"), message(4, "/4")]
    assert queue.bring(*batch) == ["m2", "m4"]
    assert [len(keys(queue.log, server)) for server in (1, 2)] == [MOST_EVENTS, 1]


def test_a_write_whose_answer_was_lost_is_found_when_its_messages_come_again(database: Database, world: World) -> None:
    class Mute(SqliteLog):
        """Writes, but says nothing until told to."""

        mute = False

        def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
            super().append(commits, receipts, now_s)
            if self.mute:
                world.elapsed_s += 60
                raise Unavailable("no answer")

    log = Mute(database)
    queue = Queue(log, world)
    log.mute = True
    assert queue.bring(message(1, "/1"), message(2, "/2")) == ["m1", "m2"]
    log.mute = False
    assert queue.bring(*again(message(1, "/1"), message(2, "/2"))) == []
    assert keys(log) == [(1, "/1"), (1, "/2")]
