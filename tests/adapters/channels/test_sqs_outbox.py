"""The outbox on SQS and its delivery states. moto for single threads, ministack for order within groups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from socket import create_server
from threading import Barrier, get_ident
from typing import Any

import pytest
from moto import mock_aws

from chalicelib.adapters.aws.client import SQS
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.aws.time_budget import time_limit
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.delivery_states import MAX_COUNTED, RECORD_TTL_S, DeliveryStates
from chalicelib.adapters.queue.sqs_outbox import MAX_SEND_ATTEMPTS, MAX_SEND_THREADS, SqsOutbox
from chalicelib.adapters.queue.sqs_queue import MAX_BATCH, MAX_VISIBILITY_TIMEOUT_S
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.notifications.delivery import Delivery, Parked, Tries
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, DeliveryState, ReceivedMessage
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.lambda_events import sqs
from tests.adapters.aws.transports import MotoTransport, create_test_client
from tests.adapters.channels.queues import a_delivery, create_queue, delete, open_client, receive_batch

ONE = a_delivery()
BARRIER_TIMEOUT_S = 30.0
LATE_MS = 1_700_000_000_000


@pytest.fixture
def client(aws_environment: None) -> Iterator[ServiceClient]:  # noqa: ARG001
    """A client of moto's SQS."""
    with mock_aws():
        yield create_test_client(MotoTransport(SQS), SQS)


@pytest.fixture
def url(client: ServiceClient) -> str:
    return create_queue(client)


@pytest.fixture
def outbox(client: ServiceClient, url: str, sqlite_views: SqliteViews) -> SqsOutbox:
    return SqsOutbox(lambda: client, url, sqlite_views)


@pytest.fixture
def records(sqlite_views: SqliteViews) -> DeliveryStates:
    return DeliveryStates(sqlite_views, lambda: LATE_MS)


class UnreliableClient:
    """A client that rejects messages. `fails` selects them by batch number and messages."""

    def __init__(self, fails: Callable[[int, Sequence[DeliveryMessage]], Sequence[int]]) -> None:
        self._fails = fails
        self.batches: list[list[DeliveryMessage]] = []
        self.sent: list[DeliveryMessage] = []
        self.pauses: list[float] = []

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "SendMessageBatch"
        entries = params["Entries"]
        messages = [DeliveryMessage.parse(entry["MessageBody"]) for entry in entries]
        failed = self._fails(len(self.batches), messages)
        self.batches.append(messages)
        self.sent += (item for n, item in enumerate(messages) if n not in failed)
        return {
            "Successful": [{"Id": entry["Id"]} for n, entry in enumerate(entries) if n not in failed],
            "Failed": [{"Id": entries[n]["Id"], "Code": "InternalError", "SenderFault": False} for n in failed],
        }

    def outbox(self, views: SqliteViews) -> SqsOutbox:
        return SqsOutbox(lambda: self, "q", views, self.pauses.append)


def receive_all(client: ServiceClient, url: str) -> list[ReceivedMessage]:
    """Receive and delete all messages of the queue."""
    messages: list[ReceivedMessage] = []
    while (event := receive_batch(client, url))["Records"]:
        delete(client, url, event)
        messages += sqs.parse_delivery_messages(event)
    return messages


def test_messages_of_same_key_and_address_share_a_group(client: ServiceClient, url: str, outbox: SqsOutbox) -> None:
    same = [a_delivery(1), a_delivery(2)]
    others = [
        a_delivery(3, address="anna"),
        a_delivery(4, key="/job/2"),
        a_delivery(5, observer="dev"),
        a_delivery(6, server=2),
        a_delivery(7, ""),
    ]
    outbox.put([*same, *others])
    groups = {
        message.message.delivery: message.group
        for message in receive_all(client, url)
        if isinstance(message.message, DeliveryMessage)
    }
    assert set(groups) == {*same, *others}
    assert len({groups[item] for item in same}) == 1
    assert len(set(groups.values())) == 6
    assert all(len(group) == 32 and group.isalnum() for group in groups.values())


def test_put_sends_delivery_and_queue_drops_repeats(client: ServiceClient, url: str, outbox: SqsOutbox) -> None:
    outbox.put([ONE])
    outbox.put([ONE, a_delivery(2)])
    assert [item.message for item in receive_all(client, url)] == [DeliveryMessage(ONE), DeliveryMessage(a_delivery(2))]


def test_put_sends_full_batches_of_a_group_in_order(sqlite_views: SqliteViews) -> None:
    client = UnreliableClient(lambda _batch, _messages: ())
    deliveries = [a_delivery(n) for n in range(25)]
    client.outbox(sqlite_views).put(deliveries)
    assert [len(batch) for batch in client.batches] == [MAX_BATCH, MAX_BATCH, 5]
    assert [item.delivery for item in client.sent] == deliveries


def test_put_mixes_groups_in_full_batches(sqlite_views: SqliteViews) -> None:
    client = UnreliableClient(lambda _batch, _messages: ())
    client.outbox(sqlite_views).put([a_delivery(n, f"/job/{n}") for n in range(10)])
    assert [len(batch) for batch in client.batches] == [MAX_BATCH]


def test_put_keeps_batches_below_size_limit(sqlite_views: SqliteViews) -> None:
    client = UnreliableClient(lambda _batch, _messages: ())
    client.outbox(sqlite_views).put([a_delivery(n, "x" * 100_000) for n in range(5)])
    assert [len(batch) for batch in client.batches] == [2, 2, 1]


def test_put_sends_groups_in_parallel_each_in_order(sqlite_views: SqliteViews) -> None:
    deliveries = [a_delivery(n, f"/job/{n % 12}") for n in range(200)]
    barrier, threads = Barrier(MAX_SEND_THREADS, timeout=BARRIER_TIMEOUT_S), set[int]()

    class Parallel(UnreliableClient):
        def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            if get_ident() not in threads:
                threads.add(get_ident())
                barrier.wait()
            return super().call(operation, params)

    client = Parallel(lambda _batch, _messages: ())
    client.outbox(sqlite_views).put(deliveries)
    assert sorted(item.delivery.event for item in client.sent) == [item.event for item in deliveries]
    for key in {item.key for item in deliveries}:
        assert [item.delivery for item in client.sent if item.delivery.key == key] == [
            item for item in deliveries if item.key == key
        ]


def test_put_in_threads_respects_time_limit(client: ServiceClient, url: str, sqlite_views: SqliteViews) -> None:
    outbox = SqsOutbox(lambda: client, url, sqlite_views)
    with time_limit(0.0), pytest.raises(Unavailable, match="the time for this request is used up"):
        outbox.put([a_delivery(n, f"/job/{n}") for n in range(50)])


def test_put_resends_rejected_messages_in_order(sqlite_views: SqliteViews) -> None:
    deliveries = [a_delivery(n) for n in range(100)]
    client = UnreliableClient(lambda batch, messages: range(3, len(messages)) if batch % 3 else ())
    client.outbox(sqlite_views).put(deliveries)
    assert [item.delivery for item in client.sent] == deliveries
    assert set(client.pauses) == {0.1, 0.2}


def test_put_resends_only_rejected_messages(sqlite_views: SqliteViews) -> None:
    """SQS would ignore the others, because it has them. The accepted ones behind a rejected one overtake it."""
    client = UnreliableClient(lambda batch, _messages: () if batch else (1,))
    client.outbox(sqlite_views).put([a_delivery(n) for n in range(12)])
    assert [[item.delivery.event.session for item in batch] for batch in client.batches] == [
        list(range(10)),
        [1, 10, 11],
    ]


def test_put_rejected_repeatedly_raises_unavailable(sqlite_views: SqliteViews) -> None:
    deliveries = [a_delivery(n) for n in range(12)]
    client = UnreliableClient(
        lambda _batch, messages: [n for n, item in enumerate(messages) if item.delivery == deliveries[1]]
    )
    with pytest.raises(Unavailable, match="SQS rejected deliveries 4 times: InternalError"):
        client.outbox(sqlite_views).put(deliveries)
    assert (len(client.batches), client.pauses) == (MAX_SEND_ATTEMPTS, [0.1, 0.2, 0.4])


def test_put_resends_messages_without_result(sqlite_views: SqliteViews) -> None:
    class Silent(UnreliableClient):
        def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            answer = super().call(operation, params)
            return answer if len(self.batches) > 1 else {}

    client = Silent(lambda _batch, _messages: ())
    client.outbox(sqlite_views).put([ONE])
    assert client.batches == [[DeliveryMessage(ONE)]] * 2


def test_put_to_missing_queue_raises_unavailable(client: ServiceClient, sqlite_views: SqliteViews) -> None:
    nowhere = "https://sqs.eu-central-1.amazonaws.com/123456789012/nowhere.fifo"
    with pytest.raises(Unavailable, match="SQS rejected SendMessageBatch: QueueDoesNotExist"):
        SqsOutbox(lambda: client, nowhere, sqlite_views).put([ONE])


@pytest.mark.usefixtures("aws_environment")
def test_unreachable_sqs_raises_unavailable(sqlite_views: SqliteViews) -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with open_client(f"http://127.0.0.1:{port}") as opened:
        outbox = SqsOutbox(lambda: opened, f"http://127.0.0.1:{port}/1/q.fifo", sqlite_views)
        with pytest.raises(Unavailable, match="SQS cannot be reached: "):
            outbox.put([ONE])
        with pytest.raises(Unavailable, match="SQS cannot be reached: "):
            outbox.postpone(["r"], 1.0)


def test_retry_sends_new_message_and_updates_record(
    client: ServiceClient, url: str, outbox: SqsOutbox, sqlite_views: SqliteViews
) -> None:
    outbox.put([ONE])
    park(outbox)
    assert outbox.retry(1, "ops", [ONE.id]) == 1
    assert [item.message for item in receive_all(client, url)] == [DeliveryMessage(ONE), DeliveryMessage(ONE, 1)]
    (record,) = sqlite_views.range("1/parked/ops", "", "2")
    assert (record.item, record.version, outbox.parked(1, "ops", "", 10)) == (ONE.id, 2, [])


def test_failed_retry_leaves_delivery_parked(client: ServiceClient, sqlite_views: SqliteViews) -> None:
    outbox = SqsOutbox(lambda: client, "https://sqs.eu-central-1.amazonaws.com/123456789012/nowhere.fifo", sqlite_views)
    park(outbox)
    with pytest.raises(Unavailable):
        outbox.retry(1, "ops", [ONE.id])
    assert [item.delivery for item in outbox.parked(1, "ops", "", 10)] == [ONE]


def park(records: DeliveryStates, retry: int = 0, seen: DeliveryState | None = None) -> None:
    """Park the delivery in its retry number `retry`."""
    message = DeliveryMessage(ONE, retry)
    records.park(message, Tries(5), "no", records.state(message) if seen is None else seen)


def test_concurrent_retries_count_once(records: DeliveryStates) -> None:
    park(records)
    ours, theirs = (records.parked_messages(1, "ops", [ONE.id])[ONE.id] for _ in range(2))
    assert (ours, ours == theirs) == (DeliveryMessage(ONE, 1), True)
    assert [records.mark_retried(ours), records.mark_retried(theirs)] == [True, False]


def test_mark_retried_ignores_delivery_parked_again(
    records: DeliveryStates,
) -> None:
    park(records)
    late = records.parked_messages(1, "ops", [ONE.id])[ONE.id]
    assert records.mark_retried(DeliveryMessage(ONE, 1))
    park(records, retry=1)
    assert not records.mark_retried(late)
    assert len(records.parked(1, "ops", "", 10)) == 1


@pytest.mark.parametrize("first", ["sent", "parked"])
def test_delivery_sent_and_parked_concurrently_is_sent(first: str, records: DeliveryStates) -> None:
    message = DeliveryMessage(ONE)
    seen = records.record_attempt(message, Tries(5), records.state(message))
    if first == "sent":
        records.record_done(message, "sent", seen)
        park(records, seen=seen)
    else:
        park(records, seen=seen)
        records.record_done(message, "sent", seen)
    assert (records.state(message).state, records.parked(1, "ops", "", 10)) == ("sent", [])


def test_record_attempt_of_sent_delivery_changes_nothing(records: DeliveryStates) -> None:
    message = DeliveryMessage(ONE)
    seen = records.state(message)
    records.record_done(message, "sent", seen)
    assert records.record_attempt(message, Tries(1), seen) == DeliveryState(state="sent", version=1)


def test_park_twice_lists_delivery_once(records: DeliveryStates) -> None:
    park(records, seen=DeliveryState())
    park(records, seen=DeliveryState())
    assert records.parked(1, "ops", "", 10) == [Parked(ONE, 5, "no", LATE_MS)]
    assert records.mark_retried(DeliveryMessage(ONE, 1))
    park(records, seen=DeliveryState())
    assert records.parked(1, "ops", "", 10) == []


class RecordingViews(SqliteViews):
    """Records all reads and writes."""

    calls: list[str]

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        self.calls.append(f"get {view}")
        return super().get(view, items)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        self.calls += (f"put {change.record.view}" for change in changes)
        return super().put(changes)


def test_successful_delivery_costs_one_read_and_one_write(tmp_path: Path) -> None:
    database = Database(tmp_path / "counted.sqlite", SCHEMA)
    views = RecordingViews(database)
    views.calls = []
    records = DeliveryStates(views)
    records.record_done(DeliveryMessage(ONE), "sent", records.state(DeliveryMessage(ONE)))
    assert views.calls == ["get 1/delivery/ops", "put 1/delivery/ops"]
    database.close()


def test_counts_stop_at_limit(records: DeliveryStates, sqlite_views: SqliteViews) -> None:
    data = '{"state":"sent","retry":0,"tries":0}'
    rows = [Record("1/delivery/ops", f"1.{n}.1/ops", 1, data) for n in range(MAX_COUNTED + 10)]
    sqlite_views.put([ConditionalWrite(record, None) for record in rows])
    assert records.counts(1, "ops") == {"waiting": -1, "parked": 0, "sent": MAX_COUNTED, "dropped": 0}


def test_state_of_first_release_is_read(records: DeliveryStates, sqlite_views: SqliteViews) -> None:
    data = '{"state":"tried","retry":1,"tries":3}'
    sqlite_views.put([ConditionalWrite(Record("1/delivery/ops", ONE.id, 4, data), None)])
    assert records.state(DeliveryMessage(ONE)) == DeliveryState("tried", 1, Tries(3), 4, is_legacy=True)


def test_tries_are_stored_while_delivery_is_tried(records: DeliveryStates) -> None:
    message, tries = DeliveryMessage(ONE), Tries(3, LATE_MS, 2)
    records.record_attempt(message, tries, records.state(message))
    assert records.state(message).tries == tries


class ExpiringViews(SqliteViews):
    """Records when each record expires."""

    expiries: dict[tuple[str, int], int | None]

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        self.expiries.update(((change.record.view, change.record.version), change.expires_s) for change in changes)
        return super().put(changes)


def test_records_expire_except_while_parked(tmp_path: Path) -> None:
    database = Database(tmp_path / "expiring.sqlite", SCHEMA)
    views = ExpiringViews(database)
    views.expiries = {}
    records, message = DeliveryStates(views, lambda: LATE_MS), DeliveryMessage(ONE)
    records.record_attempt(message, Tries(1, LATE_MS), records.state(message))
    park(records)
    assert records.mark_retried(DeliveryMessage(ONE, 1))
    records.record_done(DeliveryMessage(ONE, 1), "sent", records.state(message))
    in_two_weeks = LATE_MS // 1000 + RECORD_TTL_S
    assert views.expiries == {
        ("1/delivery/ops", 1): in_two_weeks,
        ("1/parked/ops", 1): None,
        ("1/delivery/ops", 2): None,
        ("1/parked/ops", 2): in_two_weeks,
        ("1/delivery/ops", 3): in_two_weeks,
    }
    database.close()


class PostponingClient:
    """Records postponed messages."""

    def __init__(self) -> None:
        self.entries: list[list[dict[str, Any]]] = []

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "ChangeMessageVisibilityBatch"
        self.entries.append(params["Entries"])
        return {}


@pytest.mark.parametrize(
    ("pause_s", "hidden_s"), [(0.0, 0), (0.1, 1), (2.0, 2), (900.0, 900), (10.0**6, MAX_VISIBILITY_TIMEOUT_S)]
)
def test_postpone_rounds_up_and_caps_visibility_timeout(
    pause_s: float, hidden_s: int, sqlite_views: SqliteViews
) -> None:
    client = PostponingClient()
    SqsOutbox(lambda: client, "q", sqlite_views).postpone([f"r{n}" for n in range(12)], pause_s)
    assert [len(entries) for entries in client.entries] == [10, 2]
    assert [entry["ReceiptHandle"] for entry in chain(*client.entries)] == [f"r{n}" for n in range(12)]
    assert {entry["VisibilityTimeout"] for entry in chain(*client.entries)} == {hidden_s}


def sessions(event: dict[str, Any]) -> list[int]:
    return [
        item.message.delivery.event.session
        for item in sqs.parse_delivery_messages(event)
        if isinstance(item.message, DeliveryMessage)
    ]


def test_postponed_group_blocks_its_later_messages(ministack: str, ministack_views: DynamoViews) -> None:
    with open_client(ministack) as client:
        url = create_queue(client)
        outbox = SqsOutbox(lambda: client, url, ministack_views)
        outbox.put([a_delivery(1), a_delivery(2), a_delivery(3, "/job/2"), a_delivery(4)])
        event = receive_batch(client, url)
        assert sorted(sessions(event)) == [1, 2, 3, 4]
        group = [
            item.receipt
            for item in sqs.parse_delivery_messages(event)
            if item.group == sqs.parse_delivery_messages(event)[0].group
        ]
        outbox.postpone(group, 3_600.0)
        delete(client, url, event, but=[record["messageId"] for record in event["Records"]][:1])
        outbox.put([a_delivery(5), a_delivery(6, "/job/2")])
        assert sessions(receive_batch(client, url)) == [6]


def test_group_postponed_by_zero_is_received_again_in_order(ministack: str, ministack_views: DynamoViews) -> None:
    with open_client(ministack) as client:
        url = create_queue(client)
        outbox = SqsOutbox(lambda: client, url, ministack_views)
        deliveries: list[Delivery] = [a_delivery(n) for n in range(1, 8)]
        outbox.put(deliveries)
        first = sqs.parse_delivery_messages(receive_batch(client, url))
        outbox.postpone([item.receipt for item in first], 0.0)
        again = sqs.parse_delivery_messages(receive_batch(client, url))
        assert [item.message for item in again] == [DeliveryMessage(item) for item in deliveries]
        assert [item.receives for item in again] == [2] * 7
        assert [item.sequence for item in again] == sorted(item.sequence for item in again)
