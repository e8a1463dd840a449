"""The outbox on SQS: what is sent, what is remembered. moto for what one thread sees, ministack for order in groups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from moto import mock_aws

from chalicelib.adapters.aws.client import SQS
from chalicelib.adapters.aws.protocol import Calls
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.delivery_states import MOST_COUNTED, DeliveryRecords
from chalicelib.adapters.queue.sqs_outbox import ATTEMPTS, BATCH, LONGEST_PAUSE_S, SqsOutbox
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.notifications.delivery import Delivery, Parked
from chalicelib.domain.notifications.delivery_message import Queued, Received, Standing
from chalicelib.domain.views.record import Change, Record
from chalicelib.lambda_events import sqs
from tests.adapters.aws.wires import Moto, client_on
from tests.adapters.channels.queues import a_client, a_delivery, brought, create_queue, delete

ONE = a_delivery()
LATE_MS = 1_700_000_000_000


@pytest.fixture
def client(aws_environment: None) -> Iterator[Calls]:  # noqa: ARG001
    """A client of moto's SQS."""
    with mock_aws():
        yield client_on(Moto(SQS), SQS)


@pytest.fixture
def url(client: Calls) -> str:
    return create_queue(client)


@pytest.fixture
def outbox(client: Calls, url: str, sqlite_views: SqliteViews) -> SqsOutbox:
    return SqsOutbox(lambda: client, url, sqlite_views)


@pytest.fixture
def records(sqlite_views: SqliteViews) -> DeliveryRecords:
    return DeliveryRecords(sqlite_views)


class Unsteady:
    """A client that does not take everything: each batch is told which of its messages fail, and what was sent."""

    def __init__(self, fails: Callable[[int, Sequence[Queued]], Sequence[int]]) -> None:
        self._fails = fails
        self.batches: list[list[Queued]] = []
        self.sent: list[Queued] = []
        self.pauses: list[float] = []

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "SendMessageBatch"
        entries = params["Entries"]
        messages = [Queued.parse(entry["MessageBody"]) for entry in entries]
        failed = self._fails(len(self.batches), messages)
        self.batches.append(messages)
        self.sent += (one for n, one in enumerate(messages) if n not in failed)
        return {
            "Successful": [{"Id": entry["Id"]} for n, entry in enumerate(entries) if n not in failed],
            "Failed": [{"Id": entries[n]["Id"], "Code": "InternalError", "SenderFault": False} for n in failed],
        }

    def outbox(self, views: SqliteViews) -> SqsOutbox:
        return SqsOutbox(lambda: self, "q", views, self.pauses.append)


def received(client: Calls, url: str) -> list[Received]:
    """All that the queue brings until it brings no more; it keeps none of it."""
    found: list[Received] = []
    while (event := brought(client, url))["Records"]:
        delete(client, url, event)
        found += sqs.received(event)
    return found


def test_messages_of_the_same_observer_and_key_are_one_group(client: Calls, url: str, outbox: SqsOutbox) -> None:
    same = [a_delivery(1), a_delivery(2), a_delivery(3, address="anna")]
    others = [a_delivery(4, key="/job/2"), a_delivery(5, observer="dev"), a_delivery(6, server=2), a_delivery(7, "")]
    outbox.put([*same, *others])
    groups = {one.queued.delivery: one.group for one in received(client, url) if isinstance(one.queued, Queued)}
    assert set(groups) == {*same, *others}
    assert len({groups[one] for one in same}) == 1
    assert len(set(groups.values())) == 5
    assert all(len(group) == 32 and group.isalnum() for group in groups.values())


def test_a_message_is_the_delivery_and_the_queue_drops_its_repeats(client: Calls, url: str, outbox: SqsOutbox) -> None:
    outbox.put([ONE])
    outbox.put([ONE, a_delivery(2)])
    assert [one.queued for one in received(client, url)] == [Queued(ONE), Queued(a_delivery(2))]


def test_many_are_sent_in_tens(sqlite_views: SqliteViews) -> None:
    client = Unsteady(lambda _batch, _messages: ())
    client.outbox(sqlite_views).put([a_delivery(n, f"/job/{n}") for n in range(25)])
    assert [len(batch) for batch in client.batches] == [BATCH, BATCH, 5]


def test_of_each_group_only_one_is_sent_at_once(sqlite_views: SqliteViews) -> None:
    client = Unsteady(lambda _batch, _messages: ())
    client.outbox(sqlite_views).put([a_delivery(1), a_delivery(2), a_delivery(3, "/job/2"), a_delivery(4)])
    assert [[one.delivery.event.session for one in batch] for batch in client.batches] == [[1, 3], [2], [4]]


def test_what_the_queue_did_not_take_is_sent_again_and_nothing_overtakes_it(sqlite_views: SqliteViews) -> None:
    some = [a_delivery(n, f"/job/{n % 12}") for n in range(100)]
    client = Unsteady(lambda batch, messages: range(0, len(messages), 3) if batch % 3 else ())
    client.outbox(sqlite_views).put(some)
    assert sorted(one.delivery.event for one in client.sent) == [one.event for one in some]
    for key in {one.key for one in some}:
        assert [one.delivery for one in client.sent if one.delivery.key == key] == [
            one for one in some if one.key == key
        ]
    assert set(client.pauses) == {0.1, 0.2}


def test_what_the_queue_never_takes_is_unavailable(sqlite_views: SqliteViews) -> None:
    some = [a_delivery(n, f"/job/{n}") for n in range(12)]
    client = Unsteady(lambda _batch, messages: [n for n, one in enumerate(messages) if one.delivery == some[1]])
    with pytest.raises(Unavailable, match="SQS does not take deliveries: InternalError"):
        client.outbox(sqlite_views).put(some)
    assert (len(client.batches), client.pauses) == (ATTEMPTS, [0.1, 0.2, 0.4])


def test_a_message_about_which_the_queue_says_nothing_is_sent_again(sqlite_views: SqliteViews) -> None:
    class Silent(Unsteady):
        def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            answer = super().call(operation, params)
            return answer if len(self.batches) > 1 else {}

    client = Silent(lambda _batch, _messages: ())
    client.outbox(sqlite_views).put([ONE])
    assert client.batches == [[Queued(ONE)]] * 2


def test_a_queue_that_does_not_exist_is_unavailable(client: Calls, sqlite_views: SqliteViews) -> None:
    nowhere = "https://sqs.eu-central-1.amazonaws.com/123456789012/nowhere.fifo"
    with pytest.raises(Unavailable, match="SQS refuses: QueueDoesNotExist"):
        SqsOutbox(lambda: client, nowhere, sqlite_views).put([ONE])


@pytest.mark.usefixtures("aws_environment")
def test_an_sqs_that_cannot_be_reached_is_unavailable(sqlite_views: SqliteViews) -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with a_client(f"http://127.0.0.1:{port}") as opened:
        outbox = SqsOutbox(lambda: opened, f"http://127.0.0.1:{port}/1/q.fifo", sqlite_views)
        with pytest.raises(Unavailable, match="SQS cannot be reached: "):
            outbox.put([ONE])
        with pytest.raises(Unavailable, match="SQS cannot be reached: "):
            outbox.postpone(["r"], 1.0)


def test_a_retry_is_another_message_for_the_queue_and_marks_the_record(
    client: Calls, url: str, outbox: SqsOutbox, sqlite_views: SqliteViews
) -> None:
    outbox.put([ONE])
    park(outbox)
    assert outbox.retry(1, "ops", [ONE.id]) == 1
    assert [one.queued for one in received(client, url)] == [Queued(ONE), Queued(ONE, 1)]
    (record,) = sqlite_views.range("1/parked/ops", "", "2")
    assert (record.item, record.to, outbox.parked(1, "ops", "", 10)) == (ONE.id, 2, [])


def test_what_cannot_be_queued_again_stays_parked(client: Calls, sqlite_views: SqliteViews) -> None:
    outbox = SqsOutbox(lambda: client, "https://sqs.eu-central-1.amazonaws.com/123456789012/nowhere.fifo", sqlite_views)
    park(outbox)
    with pytest.raises(Unavailable):
        outbox.retry(1, "ops", [ONE.id])
    assert [one.delivery for one in outbox.parked(1, "ops", "", 10)] == [ONE]


def park(records: DeliveryRecords, retry: int = 0, seen: Standing | None = None) -> None:
    """Park the delivery after so many retries."""
    queued = Queued(ONE, retry)
    records.park(queued, Parked(ONE, 5, "no", LATE_MS), records.standing(queued) if seen is None else seen)


def test_two_who_retry_at_the_same_time_are_told_apart(records: DeliveryRecords) -> None:
    park(records)
    ours, theirs = (records.to_retry(1, "ops", [ONE.id])[ONE.id] for _ in range(2))
    assert (ours, ours == theirs) == (Queued(ONE, 1), True)
    assert [records.retried(ours), records.retried(theirs)] == [True, False]


def test_what_was_parked_again_meanwhile_is_not_taken_off_the_list_by_an_earlier_retry(
    records: DeliveryRecords,
) -> None:
    park(records)
    late = records.to_retry(1, "ops", [ONE.id])[ONE.id]
    assert records.retried(Queued(ONE, 1))
    park(records, retry=1)
    assert not records.retried(late)
    assert len(records.parked(1, "ops", "", 10)) == 1


@pytest.mark.parametrize("first", ["told", "parked"])
def test_what_is_told_by_one_and_given_up_by_another_is_told(first: str, records: DeliveryRecords) -> None:
    queued = Queued(ONE)
    seen = records.tried(queued, 5, records.standing(queued))
    if first == "told":
        records.done(queued, "sent", seen)
        park(records, seen=seen)
    else:
        park(records, seen=seen)
        records.done(queued, "sent", seen)
    assert (records.standing(queued).state, records.parked(1, "ops", "", 10)) == ("sent", [])


def test_a_try_of_what_is_told_meanwhile_is_not_counted(records: DeliveryRecords) -> None:
    queued = Queued(ONE)
    seen = records.standing(queued)
    records.done(queued, "sent", seen)
    assert records.tried(queued, 1, seen) == Standing(state="sent", version=1)


def test_to_park_twice_is_to_park_once(records: DeliveryRecords) -> None:
    park(records, seen=Standing())
    park(records, seen=Standing())
    assert records.parked(1, "ops", "", 10) == [Parked(ONE, 5, "no", LATE_MS)]
    assert records.retried(Queued(ONE, 1))
    park(records, seen=Standing())
    assert records.parked(1, "ops", "", 10) == []


class Writes(SqliteViews):
    """Counts what it is asked for."""

    asked: list[str]

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        self.asked.append(f"get {view}")
        return super().get(view, items)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        self.asked += (f"put {change.record.view}" for change in changes)
        return super().put(changes)


def test_a_delivery_that_goes_well_costs_one_read_and_one_write(tmp_path: Path) -> None:
    database = Database(tmp_path / "counted.sqlite", SCHEMA)
    views = Writes(database)
    views.asked = []
    records = DeliveryRecords(views)
    records.done(Queued(ONE), "sent", records.standing(Queued(ONE)))
    assert views.asked == ["get 1/delivery/ops", "put 1/delivery/ops"]
    database.close()


def test_more_than_a_limit_is_not_counted(records: DeliveryRecords, sqlite_views: SqliteViews) -> None:
    data = '{"state":"sent","retry":0,"tries":0}'
    rows = [Record("1/delivery/ops", f"1.{n}.1/ops", 1, data) for n in range(MOST_COUNTED + 10)]
    sqlite_views.put([Change(record, None) for record in rows])
    assert records.counts(1, "ops") == {"waiting": -1, "parked": 0, "sent": MOST_COUNTED, "dropped": 0}


class Postponing:
    """Remembers what is postponed."""

    def __init__(self) -> None:
        self.entries: list[list[dict[str, Any]]] = []

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "ChangeMessageVisibilityBatch"
        self.entries.append(params["Entries"])
        return {}


@pytest.mark.parametrize(
    ("pause_s", "hidden_s"), [(0.0, 0), (0.1, 1), (2.0, 2), (900.0, 900), (10.0**6, LONGEST_PAUSE_S)]
)
def test_a_pause_is_whole_seconds_and_within_what_sqs_allows(
    pause_s: float, hidden_s: int, sqlite_views: SqliteViews
) -> None:
    client = Postponing()
    SqsOutbox(lambda: client, "q", sqlite_views).postpone([f"r{n}" for n in range(12)], pause_s)
    assert [len(entries) for entries in client.entries] == [10, 2]
    assert [entry["ReceiptHandle"] for entry in chain(*client.entries)] == [f"r{n}" for n in range(12)]
    assert {entry["VisibilityTimeout"] for entry in chain(*client.entries)} == {hidden_s}


def sessions(event: dict[str, Any]) -> list[int]:
    return [one.queued.delivery.event.session for one in sqs.received(event) if isinstance(one.queued, Queued)]


def test_a_group_is_brought_in_order_and_not_while_its_first_is_postponed(
    ministack: str, ministack_views: DynamoViews
) -> None:
    with a_client(ministack) as client:
        url = create_queue(client)
        outbox = SqsOutbox(lambda: client, url, ministack_views)
        outbox.put([a_delivery(1), a_delivery(2), a_delivery(3, "/job/2"), a_delivery(4)])
        event = brought(client, url)
        assert sorted(sessions(event)) == [1, 2, 3, 4]
        group = [one.receipt for one in sqs.received(event) if one.group == sqs.received(event)[0].group]
        outbox.postpone(group, 3_600.0)
        delete(client, url, event, but=[record["messageId"] for record in event["Records"]][:1])
        outbox.put([a_delivery(5), a_delivery(6, "/job/2")])
        assert sessions(brought(client, url)) == [6]


def test_a_group_that_is_postponed_for_no_time_comes_again_at_once_and_in_order(
    ministack: str, ministack_views: DynamoViews
) -> None:
    with a_client(ministack) as client:
        url = create_queue(client)
        outbox = SqsOutbox(lambda: client, url, ministack_views)
        some: list[Delivery] = [a_delivery(n) for n in range(1, 8)]
        outbox.put(some)
        first = sqs.received(brought(client, url))
        outbox.postpone([one.receipt for one in first], 0.0)
        again = sqs.received(brought(client, url))
        assert [one.queued for one in again] == [Queued(one) for one in some]
        assert [one.receives for one in again] == [2] * 7
        assert [one.sequence for one in again] == sorted(one.sequence for one in again)
