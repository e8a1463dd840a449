"""Those beside the server, when the store fails them: nothing is told twice for that, and nobody fills the log file."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SCHEMA, SENT, SqliteOutbox
from chalicelib.domain.errors import LogBroken, Unavailable, Unwritable
from chalicelib.services.notifications.deliverer import Delivering
from infra.server.processes.delivery_worker import Courier
from infra.server.processes.supervisor import LONGEST_PAUSE_S, Patience, for_each
from tests.adapters.channels.queues import Teller, a_delivery
from tests.notifications.outside import eventually


class Full(SqliteOutbox):
    """Cannot keep what was sent, as often as it is told so."""

    times = 3

    def settle(self, n: int, state: int, at_ms: int, error: str = "") -> None:
        if state == SENT and self.times:
            self.times -= 1
            raise Unwritable("the disk is full")
        super().settle(n, state, at_ms, error)


@pytest.fixture(name="outbox")
def an_outbox_on_a_full_disk(tmp_path: Path) -> Iterator[Full]:
    database = Database(tmp_path / "outbox.sqlite", SCHEMA)
    yield Full(database)
    database.close()


def test_what_was_sent_is_not_sent_again_because_that_could_not_be_kept(outbox: Full) -> None:
    teller = Teller()
    courier = Courier(outbox, cast(Delivering, teller))
    outbox.put([a_delivery(1), a_delivery(2)])

    def sent_so_far() -> int:
        courier.look()
        return outbox.counts(1, "ops")["sent"]

    sent = eventually(sent_so_far, lambda count: count == 2)
    courier.stop()
    assert (sent, outbox.times) == (2, 0)
    assert [one.event.session for one in teller.told] == [1, 2]


def test_who_fails_again_and_again_waits_longer_and_complains_once(caplog: pytest.LogCaptureFixture) -> None:
    patience, pauses = Patience(0.1), []
    with caplog.at_level(logging.INFO, "annals"):
        for _ in range(8):
            patience.failed(Unwritable("the disk is full"))
            pauses.append(patience.pause_s)
        patience.failed(Unavailable("no answer"))
        patience.went_on()
        patience.went_on()
    assert (pauses, patience.pause_s) == ([0.2, 0.4, 0.8, 1.6, *[LONGEST_PAUSE_S] * 4], 0.1)
    assert caplog.messages == [
        "Unwritable: the disk is full",
        "Unavailable: no answer",
        "it goes on, after: Unavailable: no answer",
    ]


def test_one_that_fails_holds_up_no_other() -> None:
    done = []

    def work(number: int) -> None:
        if number % 2:
            raise LogBroken(str(number))
        done.append(number)

    with pytest.raises(LogBroken, match=r"^1$"):
        for_each(range(5), work)
    assert done == [0, 2, 4]
