"""The outbox on SQLite: order, cost of polls, and upgrades."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from chalicelib.adapters.mail.message import now_ms
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.outbox_table import DROPPED, PARKED, SCHEMA, SENT, UPGRADES, WAITING, read_damaged
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Tries
from chalicelib.domain.views.record import Record
from chalicelib.services.notifications.deliverer import Deliverer
from infra.server.processes.delivery_worker import DeliveryWorker
from tests.adapters.channels.queues import FakeDeliverer, a_delivery
from tests.notifications.fake_channels import eventually

LATE_MS = 2**52
FIRST_RELEASE_SCHEMA = """
CREATE TABLE delivery (
    n INTEGER PRIMARY KEY, server INTEGER NOT NULL, observer TEXT NOT NULL, id TEXT NOT NULL,
    session INTEGER NOT NULL, instance INTEGER NOT NULL, key TEXT NOT NULL, address TEXT NOT NULL, replay TEXT NOT NULL,
    state INTEGER NOT NULL, tries INTEGER NOT NULL, at INTEGER NOT NULL, error TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX delivery_id ON delivery (server, id);
CREATE TABLE record (
    view TEXT NOT NULL, item TEXT NOT NULL, "to" INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (view, item)
) STRICT, WITHOUT ROWID;
"""


@pytest.fixture(name="outbox")
def an_outbox(tmp_path: Path) -> Iterator[SqliteOutbox]:
    with closing(open_file(tmp_path)) as database:
        yield SqliteOutbox(database)


def open_file(folder: Path) -> Database:
    return Database(folder / "outbox.sqlite", SCHEMA, upgrades=UPGRADES)


def due_ids(outbox: SqliteOutbox) -> list[str]:
    return [waiting.delivery.id for waiting in outbox.due(1, "ops", LATE_MS, 10)]


def test_outbox_of_first_release_is_upgraded(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "outbox.sqlite", FIRST_RELEASE_SCHEMA)) as first_release:
        for n in (1, 2, 3):
            values = (n, 1, "ops", f"1.{n}.1/ops", n, 1, f"/job/{n // 3}", "", "", 0, 4, 0, "")
            first_release.write(f"INSERT INTO delivery VALUES ({', '.join('?' * len(values))})", values)
        first_release.write("INSERT INTO record VALUES (?, ?, ?, ?)", ("1/checkpoint", "observe", 7, "{}"))
    before_ms = now_ms()
    for _ in range(2):
        with closing(open_file(tmp_path)) as database:
            outbox = SqliteOutbox(database)
            due = outbox.due(1, "ops", now_ms(), 10)
            assert [(waiting.delivery.id, waiting.tries) for waiting in due] == [
                ("1.1.1/ops", Tries(4)),
                ("1.3.1/ops", Tries(4)),
            ]
            checkpoint = Record("1/checkpoint", "observe", 7, "{}")
            assert SqliteViews(database).get("1/checkpoint", ["observe"]) == {"observe": checkpoint}
            assert all(before_ms <= waiting.put_ms <= now_ms() for waiting in outbox.waiting(1, "ops"))
    with closing(open_file(tmp_path)) as database:
        outbox = SqliteOutbox(database)
        outbox.record_tries(1, Tries(5, 1_700_000_000_000, 1))
        assert outbox.waiting(1, "ops")[0].tries == Tries(5, 1_700_000_000_000, 1)


def test_outbox_without_digests_is_upgraded(tmp_path: Path) -> None:
    """A file of version 2 lacks three columns. Its rows and their checksums stay as they are."""
    with closing(open_file(tmp_path)) as database:
        SqliteOutbox(database).put([a_delivery(1), a_delivery(2)])
        with database.transaction() as connection:
            connection.execute("UPDATE delivery SET key = 'damaged' WHERE n = 2")
            for column in ("until", "events", "samples"):
                connection.execute(f"ALTER TABLE delivery DROP COLUMN {column}")
            connection.pragma("user_version", 2)
            assert list(read_damaged(connection)) == [2]
    digest = replace(a_delivery(3), until=7, count=2, samples=(Id(1, 3, 1), Id(1, 4, 1)))
    for _ in range(2):
        with closing(open_file(tmp_path)) as database:
            SqliteOutbox(database).put([digest])
            assert [one.delivery for one in SqliteOutbox(database).waiting(1, "ops")] == [a_delivery(1), digest]


def vm_steps_of_polls(folder: Path, behind: int) -> int:
    """The work of SQLite in ten polls while `behind` deliveries wait behind one that is not due."""
    steps: list[int] = []

    def count_steps(event: dict[str, Any]) -> None:
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    def trace(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count_steps)

    folder.mkdir()
    with closing(open_file(folder)) as database:
        outbox = SqliteOutbox(database)
        outbox.put([a_delivery(session) for session in range(1, behind + 2)])
        outbox.record_outcome(1, WAITING, LATE_MS)
        assert outbox.counts(1, "ops")["waiting"] == behind + 1
    apsw.connection_hooks.append(trace)
    try:
        with closing(open_file(folder)) as database:
            deliverer = FakeDeliverer()
            worker = DeliveryWorker(SqliteOutbox(database), cast(Deliverer, deliverer))
            steps.clear()
            for _ in range(10):
                worker.poll()
            worker.stop()
            assert deliverer.tries == []
            return sum(steps)
    finally:
        apsw.connection_hooks.remove(trace)


def test_poll_costs_the_same_behind_any_backlog(tmp_path: Path) -> None:
    small, large = (vm_steps_of_polls(tmp_path / str(behind), behind) for behind in (1, 5_000))
    assert 0 < large <= small


def test_retried_delivery_is_sent_before_its_successors(outbox: SqliteOutbox) -> None:
    first, second, third = map(a_delivery, (1, 2, 3))
    outbox.put([first, second, third])
    outbox.record_outcome(1, PARKED, 0)
    assert due_ids(outbox) == [second.id]
    outbox.retry(1, "ops", [first.id])
    assert due_ids(outbox) == [first.id]
    outbox.record_outcome(1, SENT, 0)
    assert due_ids(outbox) == [second.id]
    outbox.record_outcome(2, DROPPED, 0)
    assert due_ids(outbox) == [third.id]


def test_retried_last_delivery_waits_for_its_predecessors(outbox: SqliteOutbox) -> None:
    first, second, third = map(a_delivery, (1, 2, 3))
    outbox.put([first, second, third])
    outbox.record_outcome(3, PARKED, 0)
    outbox.retry(1, "ops", [third.id])
    assert due_ids(outbox) == [first.id]


def test_repair_order_unblocks_successors_of_deleted_ones(outbox: SqliteOutbox) -> None:
    replayed = a_delivery(1, replay="r")
    outbox.put([a_delivery(2), replayed])
    outbox.delete_after(1, 1)
    assert due_ids(outbox) == []
    outbox.repair_order()
    assert due_ids(outbox) == [replayed.id]


@pytest.mark.parametrize(
    "damage",
    [
        "address = 'eve@example.org'",
        "key = CAST(x'ff' AS TEXT)",
        "session = session + 1",
        "tries = 7",
        "state = 0",
    ],
)
def test_damaged_delivery_is_put_aside_and_others_are_sent(
    damage: str, outbox: SqliteOutbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deliveries = [a_delivery(session, address="anna@example.org") for session in (1, 2, 3)]
    outbox.put(deliveries)
    if damage.startswith("state"):
        outbox.record_outcome(1, SENT, 0)
    with closing(apsw.Connection(str(tmp_path / "outbox.sqlite"))) as connection:
        connection.execute(f"UPDATE delivery SET {damage} WHERE n = 1")
    outbox.repair_order()
    deliverer = FakeDeliverer()
    worker = DeliveryWorker(outbox, cast(Deliverer, deliverer))
    for _ in range(2):
        worker.poll()
        eventually(lambda: not worker._busy)
    worker.stop()
    assert deliverer.sent == deliveries[1:]
    assert caplog.messages == ["delivery 1 in outbox.sqlite is damaged and is not sent. Run `annals check`"]


def test_observer_name_that_is_not_utf8_stops_no_other_observer(outbox: SqliteOutbox, tmp_path: Path) -> None:
    outbox.put([a_delivery(1, observer=observer) for observer in ("a", "m", "z")])
    with closing(apsw.Connection(str(tmp_path / "outbox.sqlite"))) as connection:
        connection.execute("UPDATE delivery SET observer = CAST(x'6dff' AS TEXT) WHERE observer = 'm'")
    assert list(outbox.observers_with_due_work(LATE_MS)) == [(1, "a"), (1, "z")]


def test_damaged_parked_delivery_is_neither_listed_nor_sent(outbox: SqliteOutbox, tmp_path: Path) -> None:
    first, second = a_delivery(1), a_delivery(2)
    outbox.put([first, second])
    for n in (1, 2):
        outbox.record_outcome(n, PARKED, 0, "no such user")
    with closing(apsw.Connection(str(tmp_path / "outbox.sqlite"))) as connection:
        connection.execute("UPDATE delivery SET error = 'another' WHERE n = 1")
    assert outbox.retry(1, "ops", [first.id]) == 0
    assert [parked.delivery for parked in outbox.parked(1, "ops", "", 10)] == [second]
