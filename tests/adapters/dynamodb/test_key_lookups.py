"""The calls of an append with an idempotency key. Each of them costs money and time."""

import pytest

from chalicelib.adapters.dynamodb.legacy_receipts import LegacyReceipts
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.domain.log.append import RECEIPT_STORED_S, RECEIPT_TTL_S
from chalicelib.domain.log.commit import Appended
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.receipts import ProjectedReceipts
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.tail_cache import TailCache
from tests.adapters.aws.transports import CallList
from tests.adapters.dynamodb.conftest import Tables
from tests.builders import NOW_S, a_text, an_append, uuid7

SECOND_MS = 1_000
DAY_MS = RECEIPT_STORED_S * 1_000


class Process:
    """The part of a function or hub that appends, at a time that the test sets."""

    def __init__(self, tables: Tables, now_ms: int = NOW_S * 1000) -> None:
        self.now_ms = now_ms
        self._tables = tables
        self.log = DynamoLog(tables.client, tables.log, tables.views)
        self.views = DynamoViews(tables.client, tables.views, threads=1)
        self.start()

    def start(self) -> None:
        """Forget everything, as a new process."""
        reader = LogReader(self.log, self.views, tails=TailCache(self.log, self.views, clock=self.clock))
        legacy = LegacyReceipts(self._tables.client, self._tables.views).receipts
        receipts = ProjectedReceipts(reader, legacy, self.clock)
        self.appender = Appender(self.log, self.clock, reader=reader, receipts=receipts)
        self._requests = 0

    def clock(self) -> int:
        return self.now_ms

    def append(self, key: str | None) -> Appended:
        self._requests += 1
        request = an_append((a_text(),), request_id=f"{id(self)}-{self.now_ms}-{self._requests}", idempotency_key=key)
        return self.appender.append(request)

    def new_key(self) -> str:
        return uuid7(self.now_ms)

    def project(self) -> None:
        catch_up(projector(self.views, clock=self.clock), 1, self.log, self.views)

    def rebuild(self) -> None:
        rebuild(1, self.log, self.views, lambda *_: None, clock=self.clock)


@pytest.fixture
def process(tables: Tables) -> Process:
    """A process that has written a request with a key, which is in the views."""
    process = Process(tables)
    process.append(process.new_key())
    process.project()
    process.now_ms += SECOND_MS
    return process


def test_append_with_new_uuid7_is_one_put(process: Process, calls: CallList) -> None:
    for _ in range(3):
        process.now_ms += SECOND_MS
        assert not process.append(process.new_key()).replayed
    assert calls.names == ["PutItem"] * 3


def test_append_with_uuid7_of_skewed_clock_is_one_put(process: Process, calls: CallList) -> None:
    for lead_ms in (300_000, -500, 0):
        process.append(uuid7(process.now_ms + lead_ms))
    assert calls.names == ["PutItem"] * 3


def test_restarted_process_reads_end_of_log_and_no_keys(process: Process, calls: CallList) -> None:
    process.start()
    process.append(process.new_key())
    process.append(process.new_key())
    assert calls.names == ["Query", "BatchGetItem", "Query", "PutItem", "PutItem"]


def test_append_with_opaque_key_queries_nothing(process: Process, calls: CallList) -> None:
    process.now_ms += DAY_MS
    process.append("opaque-1")
    calls.clear()
    process.append("opaque-2")
    process.append("opaque-3")
    assert calls.names == ["BatchGetItem", "PutItem"] * 2


def test_repeated_key_is_found_in_memory(process: Process, calls: CallList) -> None:
    for key in (process.new_key(), "opaque"):
        first = process.append(key)
        calls.clear()
        assert process.append(key) == Appended(first.commit, replayed=True)
        assert set(calls.names) == {"Query"}


@pytest.mark.parametrize("is_opaque", [False, True])
@pytest.mark.parametrize("is_projected", [False, True])
def test_repeated_key_is_found_after_restart_and_rebuild(process: Process, is_opaque: bool, is_projected: bool) -> None:
    key = "opaque" if is_opaque else process.new_key()
    first = process.append(key)
    if is_projected:
        process.project()
    process.start()
    assert process.append(key) == Appended(first.commit, replayed=True)
    process.now_ms += SECOND_MS
    process.rebuild()
    process.start()
    process.append(process.new_key())
    assert process.append(key) == Appended(first.commit, replayed=True)
    process.now_ms += RECEIPT_TTL_S * 1000
    assert not process.append(key).replayed


def test_key_from_the_future_is_found_once_its_time_has_come(process: Process) -> None:
    """The client's clock is an hour ahead. Meanwhile the process restarts, and others write."""
    key = uuid7(process.now_ms + 3_600_000)
    first = process.append(key)
    process.project()
    for _ in range(4):
        process.now_ms += 1_800_000
        process.start()
        process.append(process.new_key())
        process.project()
        assert process.append(key) == Appended(first.commit, replayed=True)


def test_lost_put_reads_the_commits_between(process: Process, tables: Tables, calls: CallList) -> None:
    """Another process has written the same key. The put is refused, and the key is found in the tail."""
    other = Process(tables, process.now_ms)
    key = process.new_key()
    first = other.append(key)
    calls.clear()
    assert process.append(key) == Appended(first.commit, replayed=True)
    # The put, the commits in between, and the commit of the key.
    assert calls.names == ["PutItem", "Query", "Query"]
    calls.clear()
    process.append(process.new_key())
    assert calls.names == ["PutItem"]


def test_uuid7_that_version_0_1_0_has_stored_is_found(process: Process, tables: Tables) -> None:
    """Its commit does not have the key."""
    key = process.new_key()
    plain = an_append((a_text(),), request_id="first", idempotency_key=key)
    commit = Process(tables, process.now_ms).append(None).commit
    item = {"server": {"N": "1"}, "session": {"N": str(commit.session)}}
    tables.client.call(
        "UpdateItem",
        {
            "TableName": tables.log,
            "Key": item,
            "UpdateExpression": "REMOVE #b, crc",
            "ExpressionAttributeNames": {"#b": "before"},
        },
    )
    receipt = {
        "view": {"S": "1/receipt"},
        "item": {"S": key},
        "digest": {"S": plain.digest},
        "session": {"N": str(commit.session)},
        "req": {"S": "first"},
        "ttl": {"N": str(process.now_ms // 1000 + RECEIPT_TTL_S)},
    }
    tables.client.call("PutItem", {"TableName": tables.views, "Item": receipt})
    process.start()
    outcome = process.append(key)
    assert (outcome.replayed, outcome.commit.session) == (True, commit.session)
    process.project()
    process.start()
    assert process.append(key).replayed


def test_idle_process_reuses_no_session_that_retention_deleted(process: Process, tables: Tables) -> None:
    """Another process has written meanwhile, the views have its commits, and DynamoDB has deleted all of them."""
    other = Process(tables, process.now_ms)
    for _ in range(3):
        other.append(other.new_key())
    other.project()
    for session in range(1, 5):
        key = {"server": {"N": "1"}, "session": {"N": f"{session}"}}
        tables.client.call("DeleteItem", {"TableName": tables.log, "Key": key})
    process.log._retention_s = RECEIPT_STORED_S
    process.now_ms += DAY_MS + SECOND_MS
    assert process.append(process.new_key()).commit.session == 5
    process.now_ms += SECOND_MS
    assert process.append("opaque").commit.session == 6
