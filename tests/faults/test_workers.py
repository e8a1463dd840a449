"""Worker processes while the store fails: no delivery is repeated, and the log file does not grow without limit."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.outbox_table import SCHEMA, SENT
from chalicelib.domain.errors import LogBroken, Unavailable, Unwritable
from chalicelib.domain.notifications.delivery import Tries
from chalicelib.services.consumers.for_each import for_each, raise_first
from chalicelib.services.notifications.deliverer import Deliverer
from infra.server.processes.delivery_worker import DeliveryWorker
from infra.server.processes.supervisor import MAX_BACKOFF_S, WorkerBackoff
from tests.adapters.channels.queues import FakeDeliverer, a_delivery
from tests.notifications.fake_channels import eventually


class FullOutbox(SqliteOutbox):
    """Fails to record the first outcomes."""

    failures_left = 3

    def record_outcome(self, n: int, state: int, at_ms: int, error: str = "", tries: Tries | None = None) -> None:
        if state == SENT and self.failures_left:
            self.failures_left -= 1
            raise Unwritable("the disk is full")
        super().record_outcome(n, state, at_ms, error, tries)


@pytest.fixture(name="outbox")
def fixture_outbox(tmp_path: Path) -> Iterator[FullOutbox]:
    database = Database(tmp_path / "outbox.sqlite", SCHEMA)
    yield FullOutbox(database)
    database.close()


def test_delivery_is_not_repeated_if_its_outcome_is_not_saved(outbox: FullOutbox) -> None:
    teller = FakeDeliverer()
    worker = DeliveryWorker(outbox, cast(Deliverer, teller))
    outbox.put([a_delivery(1), a_delivery(2)])

    def sent_so_far() -> int:
        worker.poll()
        return outbox.counts(1, "ops")["sent"]

    sent = eventually(sent_so_far, lambda count: count == 2)
    worker.stop()
    assert (sent, outbox.failures_left) == (2, 0)
    assert [one.event.session for one in teller.sent] == [1, 2]


def test_backoff_grows_and_logs_each_failure_once(caplog: pytest.LogCaptureFixture) -> None:
    backoff, delays = WorkerBackoff(0.1), []
    with caplog.at_level(logging.INFO, "annals"):
        for _ in range(8):
            backoff.record_failure(Unwritable("the disk is full"))
            delays.append(backoff.delay_s)
        backoff.record_failure(Unavailable("no answer"))
        backoff.record_success()
        backoff.record_success()
    assert (delays, backoff.delay_s) == ([0.2, 0.4, 0.8, 1.6, *[MAX_BACKOFF_S] * 4], 0.1)
    assert caplog.messages == [
        "Unwritable: the disk is full",
        "Unavailable: no answer",
        "recovered from: Unavailable: no answer",
    ]


def test_for_each_continues_after_a_failure() -> None:
    done = []

    def work(number: int) -> None:
        if number % 2:
            raise LogBroken(str(number))
        done.append(number)

    with pytest.raises(LogBroken, match=r"^1$"):
        for_each(range(5), work, on_error=raise_first)
    assert done == [0, 2, 4]
