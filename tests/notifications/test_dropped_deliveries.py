"""Rules that drop a delivery, in their order: silent, filter, nomail and noslack, progress by mail."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from chalicelib.domain.notifications.delivery import DeliveryFailed, Dropped
from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, create_observer_client, job
from tests.notifications.sites import Site

NEVER = "false"
BROKEN = "event.id // 0"
"""An expression that fails when it is evaluated."""


@dataclass(frozen=True)
class Case:
    """An event, an observer, and the expected drop reason, or "sent" if it is not dropped."""

    outcome: str
    event: str = "create"
    props: Json = field(default_factory=dict)
    job: Json = field(default_factory=dict)
    channel: str = "mail"
    scope: str = "global"
    filter: str | None = None
    config: Json = field(default_factory=dict)


MINE: dict[str, Any] = {"scope": "private", "props": {"author": "anna"}}
CASES = {
    "no flags": Case("sent"),
    "silent by the event": Case("silent", props={"silent": "1"}),
    "silent by the job": Case("silent", job={"silent": "1"}),
    "silent by the job, as a number": Case("silent", job={"silent": 1}),
    "silent by the job, as a boolean": Case("silent", job={"silent": True}),
    "event overrides job: silent": Case("silent", props={"silent": "1"}, job={"silent": "0"}),
    "event overrides job: not silent": Case("sent", props={"silent": "0"}, job={"silent": "1"}),
    "empty property is false": Case("sent", props={"silent": ""}, job={"silent": "1"}),
    "silent: 0": Case("sent", job={"silent": 0}),
    "silent: false": Case("sent", job={"silent": False}),
    "silent in Slack": Case("silent", channel="slack", props={"silent": "1"}),
    "silent in the app": Case("silent", channel="app", props={"silent": "1"}),
    "private observer ignores silent": Case("sent", **MINE | {"props": {"author": "anna", "silent": "1"}}),
    "private observer ignores silent jobs": Case("sent", **MINE, job={"silent": "1"}),
    "filter does not match": Case("filtered", filter=NEVER),
    "filter does not match, private observer": Case("filtered", **MINE, filter=NEVER),
    "filter matches": Case("sent", filter="event.event == 'create' and event.props.a is not defined"),
    "filter has no config": Case("filtered", filter="config is defined or job is defined"),
    "silent before the filter": Case("silent", props={"silent": "1"}, filter=BROKEN),
    "the filter before nomail": Case("filtered", props={"nomail": "1"}, filter=NEVER),
    "nomail by the event": Case("nomail", props={"nomail": "1"}),
    "nomail by the job": Case("nomail", job={"nomail": "1"}),
    "nomail: event overrides job": Case("sent", props={"nomail": "0"}, job={"nomail": "1"}),
    "nomail applies to private observers": Case("nomail", **MINE, job={"nomail": "1"}),
    "nomail does not apply to Slack": Case("sent", channel="slack", props={"nomail": "1"}),
    "nomail does not apply to the app": Case("sent", channel="app", props={"nomail": "1"}),
    "noslack by the event": Case("noslack", channel="slack", props={"noslack": "1"}),
    "noslack by the job": Case("noslack", channel="slack", job={"noslack": "1"}),
    "noslack: event overrides job": Case("sent", channel="slack", props={"noslack": "0"}, job={"noslack": "1"}),
    "noslack does not apply to mail": Case("sent", props={"noslack": "1"}),
    "silent before nomail": Case("silent", props={"silent": "1", "nomail": "1"}),
    "mail about progress": Case("progress", "progress"),
    "mail about a set's progress": Case("progress", "progressJobSet"),
    "Slack about progress": Case("sent", "progress", channel="slack"),
    "the app about progress": Case("sent", "progress", channel="app"),
    "nomail before progress": Case("nomail", "progress", props={"nomail": "1"}),
    "progress by the observer": Case("sent", "progress", config={"mail_progress": "1"}),
    "progress by the observer, as a boolean": Case("sent", "progress", config={"mail_progress": True}),
    "no progress by the observer": Case("progress", "progress", config={"mail_progress": "0"}),
    "progress by the job": Case("sent", "progress", job={"mail_progress": "1"}),
    "progress by the event": Case("sent", "progress", props={"mail_progress": "1"}),
    "a set's progress by the event": Case("sent", "progressJobSet", props={"mail_progress": "1"}),
    "progress: event overrides job": Case(
        "progress", "progress", props={"mail_progress": "0"}, job={"mail_progress": "1"}
    ),
    "progress, private observer": Case("progress", "progress", **MINE),
}


@pytest.mark.parametrize("name", CASES)
def test_build_applies_drop_rules_in_order(site: Site, name: str) -> None:
    case = CASES[name]
    site.configure_jobs({"backup": case.job})
    user = {"user": "anna"} if case.scope == "private" else {}
    config = {"to": "anna@example.org", **case.config} if case.channel == "mail" else case.config
    site.put("ops", case.channel, scope=case.scope, filter=case.filter, config=config, **user)
    site.publish(job("create"))
    (event,) = site.publish(job(case.event, props=case.props))
    message = site.build_message("ops", event)
    assert (message.reason if isinstance(message, Dropped) else "sent") == case.outcome


def test_failing_filter_parks_delivery_with_reason(site: Site) -> None:
    site.put("ops", filter=BROKEN)
    site.publish(job("create"))
    site.observe()
    (waiting,) = site.waiting("ops")
    outcome = site.attempt(waiting)
    assert isinstance(outcome, DeliveryFailed)
    assert outcome.retry_delay_s is None
    assert outcome.error.startswith("the filter: ")


@pytest.mark.parametrize("name", ["silent", "nomail"])
def test_redirect_uses_drop_flags_of_its_job(site: Site, name: str) -> None:
    """A redirect event has neither type nor props, so those of its job apply."""
    site.configure_jobs({"quiet": {name: "1"}})
    site.put("ops")
    site.publish(job("create", 1, props={name: "1"}), job("create", 2, type="quiet"), job("create", 3))
    redirects = site.publish(*(job("redirect", number) for number in (1, 2, 3)))
    outcomes = [site.build_message("ops", event) for event in redirects]
    assert [outcome.reason if isinstance(outcome, Dropped) else "sent" for outcome in outcomes] == [name, name, "sent"]


def test_observers_file_job_settings_apply_to_deliveries(anna: ObserverClient) -> None:
    """Job settings in the file belong to the first organization."""
    local = create_observer_client(anna.member.server, anna.channels, "local")
    name = f"jobs-{anna.name}"
    local.put(name, config={"to": anna.address})
    types = ("backup", "quiet", "unmailed", "unslacked", "chatty")
    for number, kind in enumerate(types, start=1000):
        local.publish(job("create", number, type=kind), job("progress", number, type=kind))
    assert local.wait_until_settled(name, 10) == {"sent": 4, "dropped": 6}
    assert anna.channels.subjects(anna.address) == [
        "Created backup on n1 (#1000)",
        "Created unslacked on n1 (#1003)",
        "Created chatty on n1 (#1004)",
        "Running chatty on n1 (#1004): run",
    ]
    assert local.request("DELETE", name).status_code == 200
