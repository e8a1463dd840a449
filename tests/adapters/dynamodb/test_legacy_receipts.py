"""Idempotency keys that version 0.1.0 has stored are honoured until they expire."""

from collections.abc import Collection

import pytest

from chalicelib.adapters.dynamodb.items import SESSION
from chalicelib.adapters.dynamodb.legacy_receipts import LegacyReceipts
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.domain.errors import KeyReused
from chalicelib.domain.log.append import RECEIPT_STORED_S, RECEIPT_TTL_S, Receipt
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.receipts import ProjectedReceipts
from chalicelib.services.reading.log_reader import LogReader
from tests.adapters.dynamodb.conftest import Tables
from tests.builders import NOW_S, a_commit, a_text, an_append

KEYED = an_append((a_text(),), request_id="again", idempotency_key="k")


@pytest.fixture
def views(tables: Tables) -> DynamoViews:
    """The views of a log whose last commit was written by version 0.1.0 with the key `k`."""
    views = DynamoViews(tables.client, tables.views, threads=1)
    log = DynamoLog(tables.client, tables.log, tables.views)
    log.append([a_commit(1, "first", at=NOW_S * 1_000_000)])
    receipt = {
        "view": {"S": "1/receipt"},
        "item": {"S": "k"},
        "digest": {"S": KEYED.digest},
        SESSION: {"N": "1"},
        "req": {"S": "first"},
        "ttl": {"N": str(NOW_S + RECEIPT_TTL_S)},
    }
    tables.client.call("PutItem", {"TableName": tables.views, "Item": receipt})
    return views


def appender(tables: Tables, views: DynamoViews, now_s: int) -> Appender:
    log = DynamoLog(tables.client, tables.log, tables.views)

    def clock() -> int:
        return now_s * 1000

    legacy = LegacyReceipts(tables.client, tables.views).receipts
    reader = LogReader(log, views)
    return Appender(log, clock, reader=reader, receipts=ProjectedReceipts(reader, legacy, clock))


def test_key_of_version_0_1_0_is_replayed(tables: Tables, views: DynamoViews) -> None:
    outcome = appender(tables, views, NOW_S + 60).append(KEYED)
    assert (outcome.replayed, outcome.commit.request_id) == (True, "first")
    with pytest.raises(KeyReused):
        appender(tables, views, NOW_S + 60).append(KEYED._replace(texts=(a_text("/other"),)))


def test_key_of_version_0_1_0_expires_after_a_day(tables: Tables, views: DynamoViews) -> None:
    outcome = appender(tables, views, NOW_S + RECEIPT_TTL_S + 1).append(KEYED)
    assert (outcome.replayed, outcome.commit.session) == (False, 2)


class CountedReceipts:
    """Counts the lookups."""

    def __init__(self) -> None:
        self.lookups = 0

    def receipts(self, server: int, keys: Collection[str]) -> dict[str, Receipt]:
        del server, keys
        self.lookups += 1
        return {}


@pytest.mark.parametrize(("after_s", "lookups"), [(0, 1), (RECEIPT_TTL_S, 1), (RECEIPT_STORED_S, 0)])
def test_keys_of_version_0_1_0_are_looked_up_for_a_day(
    tables: Tables, views: DynamoViews, after_s: int, lookups: int
) -> None:
    """No such key can be valid a day after this version has built its first views."""
    log, now_ms = DynamoLog(tables.client, tables.log, tables.views), NOW_S * 1000
    reader, legacy = LogReader(log, views), CountedReceipts()
    receipts = ProjectedReceipts(reader, legacy.receipts, lambda: now_ms)
    assert receipts.receipts(1, ["k"]) == {}
    assert legacy.lookups == 1
    legacy.lookups = 0
    catch_up(projector(views, clock=lambda: NOW_S * 1000), 1, log, views)
    now_ms += after_s * 1000
    reader = LogReader(log, views)
    assert ProjectedReceipts(reader, legacy.receipts, lambda: now_ms).receipts(1, ["k"]) == {}
    assert legacy.lookups == lookups
