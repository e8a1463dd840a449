"""Appends that meet the same request, or a matching event, between two reads of the log."""

from collections.abc import Callable

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import ConditionFailed
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Appended
from tests.services.fakes import World, append, keys, no_match


class LateReceiptLog(SqliteLog):
    """Calls `other`, which writes too, just after the first lookup of a receipt."""

    def __init__(self, database: Database, other: Callable[[], object]) -> None:
        super().__init__(database)
        self._other: Callable[[], object] | None = other

    def receipt(self, server: int, key: str) -> Receipt | None:
        found = super().receipt(server, key)
        if self._other is not None:
            other, self._other = self._other, None
            other()
        return found


def test_key_written_after_lookup_is_replayed(database: Database, world: World) -> None:
    """The condition matches the event of the same request, which another process has written meanwhile."""
    plain = SqliteLog(database)
    theirs = append("/1", request_id="theirs", idempotency_key="k", condition=no_match("/1"))
    log = LateReceiptLog(database, lambda: world.appender(plain).append(theirs))
    ours = append("/1", request_id="ours", idempotency_key="k", condition=no_match("/1"))
    outcomes = world.appender(log).append_group([ours])
    assert outcomes == [Appended(next(plain.read(1, 0)), replayed=True)]
    assert keys(plain) == [(1, "/1")]


def test_key_of_unwritten_request_does_not_hide_match(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    log = LateReceiptLog(database, lambda: world.appender(plain).append(append("/1", request_id="theirs")))
    (outcome,) = world.appender(log).append_group([append("/1", idempotency_key="k", condition=no_match("/1"))])
    assert isinstance(outcome, ConditionFailed)
    assert keys(plain) == [(1, "/1")]
