"""Bits that flip in the header of a row, which says what type and length each of its values has."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.outbox_table import SCHEMA, SENT, UPGRADES
from chalicelib.adapters.sqlite.views import SCHEMA as VIEWS_SCHEMA
from chalicelib.adapters.sqlite.views import SqliteViews, read_damaged
from chalicelib.domain.errors import AnnalsError, DamagedRecord
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.views.record import ConditionalWrite, Record
from infra.server.commands.check.checksums import check_checksums
from infra.server.commands.check.findings import OUTBOX
from infra.server.commands.check.references import read_references
from infra.server.commands.check.sqlite_file import check_pages
from tests.adapters.channels.queues import a_delivery
from tests.faults.test_bit_flips import replace

OBSERVERS = ("aaa", "mmm", "zzz")
DELIVERIES = [a_delivery(session, observer=observer) for session, observer in enumerate(OBSERVERS, start=1)]
VIEW = "1/checkpoint"
RECORDS = [Record(VIEW, item, 3, f'{{"n":1,"last":2,"part":"{item}"}}') for item in OBSERVERS]
OUTBOX_SCHEMA = f"{SCHEMA}{VIEWS_SCHEMA.lstrip()}"
HEADER_BYTES = 24
"""At least: the size of a row, its number, the types of its columns, and the values before a marker."""


def header_flips(path: Path, marker: bytes) -> Iterator[int]:
    """Flip each bit of the bytes before each occurrence of `marker`, one at a time. Yields the positions."""
    content = path.read_bytes()
    starts = [match.start() for match in re.finditer(re.escape(marker), content)]
    positions = {position for start in starts for position in range((start - HEADER_BYTES) * 8, start * 8)}
    assert len(positions) > HEADER_BYTES * 8
    for position in sorted(positions):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        replace(path, bytes(damaged))
        yield position


def damage(path: Path, original: bytes, damaged: bytes) -> Iterator[None]:
    """Replace each occurrence of `original`, one at a time."""
    content = path.read_bytes()
    starts = [match.start() for match in re.finditer(re.escape(original), content)]
    assert len(starts) > 1
    for start in starts:
        replace(path, content[:start] + damaged + content[start + len(original) :])
        yield


def is_detected(path: Path) -> bool:
    """Whether `annals check` finds the damage."""
    read_references(path)
    return bool([*check_pages(path, lambda _: None), *check_checksums(path)])


def send_all(path: Path) -> list[Delivery]:
    """Send all deliveries like the delivery worker."""
    sent: list[Delivery] = []
    with closing(Database(path, OUTBOX_SCHEMA, durable=False, upgrades=UPGRADES)) as database:
        outbox = SqliteOutbox(database, lambda: 1_000)
        outbox.repair_order()
        for server, observer in outbox.observers_with_due_work(2_000):
            while due := outbox.due(server, observer, 2_000, limit=1):
                sent.append(due[0].delivery)
                assert len(sent) <= len(DELIVERIES)
                outbox.record_outcome(due[0].n, SENT, 3_000)
    return sorted(sent, key=lambda delivery: (delivery.event, delivery.observer))


def test_delivery_with_id_of_another_stops_no_other_delivery(tmp_path: Path) -> None:
    """The indexes are rebuilt although two rows have the same id."""
    path, deliveries = tmp_path / OUTBOX, [a_delivery(session) for session in (2, 3, 4)]
    with closing(Database(path, OUTBOX_SCHEMA, durable=False, upgrades=UPGRADES)) as database:
        SqliteOutbox(database, lambda: 1_000).put(deliveries)
    damaged_rows = 0
    for _ in damage(path, deliveries[0].id.encode(), deliveries[1].id.encode()):
        assert is_detected(path)
        sent = send_all(path)
        assert sent in (deliveries, deliveries[1:])
        damaged_rows += len(sent) == 2
        assert not is_detected(path)
    assert damaged_rows == 1


def test_flipped_headers_in_outbox_stop_no_other_delivery(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, lost = tmp_path / OUTBOX, list[int]()
    with closing(Database(path, OUTBOX_SCHEMA, durable=False, upgrades=UPGRADES)) as database:
        SqliteOutbox(database, lambda: 1_000).put(DELIVERIES)
    for position in header_flips(path, b"mmm"):
        found = is_detected(path)
        try:
            sent = send_all(path)
        except AnnalsError:
            assert found, position
            continue
        assert sent == [delivery for delivery in DELIVERIES if delivery in sent], position
        assert found or sent == DELIVERIES, position
        lost.append(len(DELIVERIES) - len(sent))
    assert lost.count(0) > lost.count(1) > 0
    assert sum(number > 1 for number in lost) <= 8  # Another number of a row makes its neighbours unreachable.
    assert "an index of outbox.sqlite was damaged. It was rebuilt" in caplog.messages


def test_flipped_headers_in_records_are_never_served(tmp_path: Path) -> None:
    """The checkpoints of observers. The file of the views has checksums of pages as well."""
    path, damaged = tmp_path / OUTBOX, 0
    with closing(Database(path, OUTBOX_SCHEMA, durable=False, upgrades=UPGRADES)) as database:
        assert SqliteViews(database).put([ConditionalWrite(record, None) for record in RECORDS]) == []
    for position in header_flips(path, b"mmm"):
        found = is_detected(path)
        try:
            with closing(Database(path, OUTBOX_SCHEMA, durable=False, upgrades=UPGRADES)) as database:
                views = SqliteViews(database)
                records = {**views.get(VIEW, OBSERVERS), **{each.item: each for each in views.range(VIEW, "", "~")}}
        except AnnalsError as error:
            damaged += isinstance(error, DamagedRecord)
            assert found, position
            continue
        assert all(record in RECORDS for record in records.values()), position
        assert found or list(records.values()) == RECORDS, position
    assert damaged


def test_record_without_name_is_found_damaged() -> None:
    """A flipped bit can make a name NULL, which the schema does not allow."""
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute('CREATE TABLE record (view, item, "to", data, crc)')
        connection.execute("INSERT INTO record VALUES (NULL, 'aaa', 3, '{}', 0), ('1/checkpoint', NULL, 3, NULL, 0)")
        assert list(read_damaged(connection)) == [("", "aaa"), ("1/checkpoint", "")]
