"""Events about deliveries that failed: written once for each parking, whichever step fails, and without secrets."""

from collections.abc import Callable, Iterator
from itertools import repeat

import pytest

from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.outbox_table import PARKED, WAITING
from chalicelib.domain.errors import NotDelivered, Unavailable, Undeliverable
from chalicelib.domain.notifications.delivery import Delivery, Tries
from chalicelib.services.notifications.history.failure_events import MAX_ERROR_CHARS
from infra.server.processes.delivery_worker import DeliveryWorker
from tests.notifications.fake_channels import Json, eventually
from tests.notifications.observer_client import job
from tests.notifications.sites import Site

REFUSED = "550 no such user"


def failure_events(site: Site) -> list[tuple[str, str | None, Json]]:
    """Type, key and payload of each event about a failed delivery."""
    fields = (event.fields for commit in site.commits() for event in commit)
    return [
        ("/".join(one.type), one.key, one.payload["data"])
        for one in fields
        if one.type[:2] == ("notification", "failed")
    ]


def refuse(site: Site, error: str = REFUSED) -> None:
    """Let all mails and posts fail for good."""
    site.channels.failing[""] = repeat(Undeliverable(error))


def test_parked_delivery_writes_event(site: Site) -> None:
    site.put("ops")
    refuse(site)
    (event,) = site.publish(job("create", 1))
    site.observe()
    site.deliver()
    assert failure_events(site) == [
        (
            "notification/failed/mail/ops",
            "/observer/ops",
            {
                "observer": "ops",
                "channel": "mail",
                "event": event.id._asdict(),
                "error": REFUSED,
                "tries": 1,
                "address": "ops@example.org",
            },
        )
    ]
    assert site.counts("ops") == {"parked": 1}


def test_failed_notification_is_sent_by_another_observer(site: Site) -> None:
    site.put("ops")
    site.put("backup", "app", types=["notification/failed/*"])
    refuse(site)
    site.publish(job("create", 1))
    site.observe()
    site.deliver()
    site.observe()
    site.deliver()
    (message,) = site.inbox("anna")
    assert (message["observer"], site.counts("ops"), site.counts("backup")) == ("backup", {"parked": 1}, {"sent": 1})


def test_failure_of_failure_notification_writes_no_event(site: Site) -> None:
    site.put("ops", types=["job/*"])
    site.put("backup", types=["notification/failed/*"])
    refuse(site)
    site.publish(job("create", 1))
    for _ in range(3):
        site.observe()
        site.deliver()
    assert (len(failure_events(site)), site.counts("backup")) == (1, {"parked": 1})


def test_retry_that_fails_writes_another_event(site: Site) -> None:
    site.put("ops", types=["job/*"])
    refuse(site)
    site.publish(job("create", 1))
    site.observe()
    site.deliver()
    (parked,) = site.outbox.parked(site.server, "ops", "", 10)
    # The clock of the site stands still, but the retry number must differ.
    later = SqliteOutbox(site.outbox._database, lambda: parked.at_ms + 60_000)
    assert later.retry(site.server, "ops", [parked.delivery.id]) == 1
    site.make_due("ops")
    site.deliver()
    assert [data["error"] for *_, data in failure_events(site)] == [REFUSED, REFUSED]


class InterruptedOutbox(SqliteOutbox):
    """Fails at one step of a delivery, before or after the step is done."""

    step = ""

    def record_tries(self, n: int, tries: Tries) -> None:
        self._interrupt("record_tries", lambda: super(InterruptedOutbox, self).record_tries(n, tries))

    def record_outcome(self, n: int, state: int, at_ms: int, error: str = "", tries: Tries | None = None) -> None:
        assert state in (PARKED, WAITING)
        self._interrupt(
            "record_outcome", lambda: super(InterruptedOutbox, self).record_outcome(n, state, at_ms, error, tries)
        )

    def _interrupt(self, step: str, work: Callable[[], None]) -> None:
        if self.step == f"before {step}":
            raise Unavailable(self.step)
        work()
        if self.step == f"after {step}":
            raise Unavailable(self.step)


STEPS = [f"{moment} {step}" for step in ("record_tries", "report", "record_outcome") for moment in ("before", "after")]


@pytest.mark.parametrize("step", STEPS)
def test_worker_that_ends_at_any_step_writes_event_once(step: str, site: Site) -> None:
    """A new worker repeats what the first one did, with another error."""
    site.put("ops", types=["job/*"])
    site.publish(job("create", 1))
    site.observe()
    outbox = InterruptedOutbox(site.outbox._database, site.components.clock)
    report = site.components.notifications.failures.report

    def interrupted_report(delivery: Delivery, retry: int, tries: Tries, error: str) -> None:
        outbox._interrupt("report", lambda: report(delivery, retry, tries, error))

    outbox.step = step
    for error in ("first", "second"):
        site.channels.failing[""] = repeat(Undeliverable(error))
        worker = DeliveryWorker(outbox, site.deliverer, site.components.clock, interrupted_report)
        worker.poll()
        eventually(lambda: not worker._busy)  # noqa: B023
        worker.stop()
        outbox.step = ""
    assert (len(failure_events(site)), site.counts("ops")) == (1, {"parked": 1})
    is_written_first = step in ("after report", "before record_outcome", "after record_outcome")
    assert failure_events(site)[0][2]["error"] == ("first" if is_written_first else "second")


def test_event_that_cannot_be_written_delays_parking(site: Site) -> None:
    """The attempt is not repeated."""
    site.put("ops", types=["job/*"])
    refuse(site)
    site.publish(job("create", 1))
    site.observe()
    outcomes: Iterator[bool] = iter([False, True])
    reported = []

    def report(delivery: Delivery, retry: int, tries: Tries, error: str) -> None:
        del retry, tries
        if not next(outcomes):
            raise Unavailable("the log does not answer")
        reported.append((delivery.id, error))

    worker = DeliveryWorker(site.outbox, site.deliverer, site.components.clock, report)
    worker.poll()
    eventually(lambda: not worker._busy)
    assert site.counts("ops") == {"waiting": 1}

    def is_parked() -> bool:
        worker.poll()
        return site.counts("ops") == {"parked": 1}

    eventually(is_parked)
    worker.stop()
    assert (len(reported), len(site.channels.attempted)) == (1, 1)


SECRET_ERRORS = [
    ("https://hooks.slack.com/services/T0/B0/xyz answered 404", "… answered 404"),
    ("no route to discord://token@host/x: closed", "no route to … closed"),
    ("x" * 5_000, "x" * (MAX_ERROR_CHARS - 1) + "…"),
]


@pytest.mark.parametrize(("error", "shown"), SECRET_ERRORS, ids=["slack", "scheme", "long"])
def test_event_has_neither_url_nor_endless_error(error: str, shown: str, site: Site) -> None:
    site.put("chat", "slack", types=["job/*"])
    site.channels.failing[""] = repeat(Undeliverable(error))
    site.publish(job("create", 1))
    site.observe()
    site.deliver()
    ((_, _, data),) = failure_events(site)
    assert (data["error"], "address" in data) == (shown, False)
    assert site.counts("chat") == {"parked": 1}


def test_event_of_private_observer_hides_its_address(site: Site) -> None:
    site.put("mine", scope="private", user="anna", config={"to": "anna@home.example"})
    site.channels.failing[""] = repeat(NotDelivered("550 <anna@home.example> is over quota"))
    site.publish(job("create", 1, props={"author": "anna"}))
    site.observe()
    (waiting,) = site.waiting("mine")
    site.components.notifications.failures.report(waiting.delivery, 0, Tries(3), "550 <anna@home.example> is full")
    ((_, key, data),) = failure_events(site)
    assert (key, data["tries"], data["error"]) == ("/observer/mine", 3, "550 <…> is full")
    assert "address" not in data
