"""Held messages: when they are sent, and what survives damage, lag and an older copy of the log."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.views.due import DUE_VIEW
from chalicelib.domain.views.record import MAX_CHARACTER, ConditionalWrite
from chalicelib.services.admin.recovery import rewind_consumers
from chalicelib.services.calm.held_messages import DELAY_US
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.ports import Views
from tests.notifications.calm_site import HOUR_S, CalmSite, one, open_calm_site


@pytest.fixture(name="calm")
def a_calm_site(tmp_path: Path) -> Iterator[CalmSite]:
    with open_calm_site(tmp_path / "site") as calm:
        yield calm


def run_due_work(calm: CalmSite) -> int:
    return calm.site.components.consumers.held.run()


def entries(calm: CalmSite) -> list[str]:
    return [record.item for record in progress(calm).range(DUE_VIEW, "", MAX_CHARACTER)]


def progress(calm: CalmSite) -> Views:
    return calm.site.components.stores.progress


def test_message_is_sent_shortly_after_its_time(calm: CalmSite) -> None:
    calm.put(digest="10m")
    calm.fail()
    calm.work()
    calm.world.now_ms += 600_000 + DELAY_US // 1000
    assert (run_due_work(calm), calm.reported()) == (0, [])
    calm.world.now_ms += 1_000
    assert run_due_work(calm) == 1
    assert (len(calm.reported()), entries(calm)) == (1, [])


def test_message_waits_for_events_that_are_not_matched(calm: CalmSite) -> None:
    """The consumer lags behind: the message is not sent without the events that belong to it."""
    calm.put(digest="10m")
    first = calm.fail()
    calm.site.observe()
    last = calm.fail()
    calm.world.now_ms += 3_600_000
    assert (run_due_work(calm), calm.reported()) == (0, [])
    calm.site.observe()
    assert run_due_work(calm) == 1
    assert calm.events() == [(first.event_id, last.event_id)]


def test_deadline_waits_for_state_that_is_not_stored(calm: CalmSite) -> None:
    """The deadline of a message is entered before its state is stored. Another process must not delete it."""
    calm.put(digest="10m")
    event = calm.fail()
    calm.world.now_ms += 3_600_000
    components = calm.site.components
    put, runs = components.stores.progress.put, list[int]()

    def put_late(changes: list[ConditionalWrite]) -> list[ConditionalWrite]:
        if any(change.record.view.endswith("/calm") for change in changes):
            runs.append(run_due_work(calm))
        return put(changes)

    object.__setattr__(components.stores.progress, "put", put_late)
    run_once(components.notifications.matcher.consumer, calm.server, components.stores.log, components.stores.progress)
    object.__setattr__(components.stores.progress, "put", put)
    assert (runs, run_due_work(calm)) == ([0], 1)
    assert calm.events() == [one(event)]


def test_damaged_deadline_is_entered_again_from_states(calm: CalmSite) -> None:
    calm.put(digest="10m")
    event = calm.fail()
    calm.work()
    (item,) = entries(calm)
    (record,) = progress(calm).range(DUE_VIEW, "", MAX_CHARACTER)
    database = progress(calm)._database  # type: ignore[attr-defined]
    database.write("UPDATE record SET data = data || ' ' WHERE view = ? AND item = ?", (DUE_VIEW, item))
    calm.world.now_ms += 3_600_000
    run_due_work(calm)
    calm.work()
    assert (calm.events(), entries(calm), record.item) == ([one(event)], [], item)


def test_older_copy_of_log_forgets_later_decisions(tmp_path: Path) -> None:
    """The copy ends before the failure that is held, and before the silence."""
    with open_calm_site(tmp_path / "site") as calm:
        calm.put(when="change", digest="10m")
        kept = calm.succeed()
        calm.work()
        calm.silence("deploy")
        calm.fail()
        calm.work()
    with closing(Database(tmp_path / "site" / "annals.sqlite")) as database:
        database.write("DELETE FROM log WHERE place > ?", (calm.server * 2**40 + kept.id.session,))
    with open_calm_site(tmp_path / "site") as calm:
        calm.world.now_ms += 3_600_000
        stores = calm.site.components.stores
        rewind_consumers(calm.server, stores.log, stores.views, stores.progress, calm.site.outbox.delete_after)
        assert calm.site.components.notifications.alerts.active(calm.server, "silence") == []
        calm.numbers = count(100)
        again = calm.fail("deploy")
        calm.wait(HOUR_S)
        assert calm.events() == [one(again)]
