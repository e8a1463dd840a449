"""Whether somebody is told: silent, filter, nomail and noslack, then a mail's progress; in this order."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from chalicelib.domain.notifications.delivery import Dropped, Failed
from tests.notifications.narration import Teller, job, teller
from tests.notifications.outside import Json
from tests.notifications.sites import Site

NEVER = "false"
BROKEN = "event.id // 0"
"""An expression that fails when it is asked."""


@dataclass(frozen=True)
class Case:
    """An event, an observer, and what becomes of them: the reason of a drop, or "told" if there is none."""

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
    "nothing is said": Case("told"),
    "silent by the event": Case("silent", props={"silent": "1"}),
    "silent by the job": Case("silent", job={"silent": "1"}),
    "silent by the job, as a number": Case("silent", job={"silent": 1}),
    "silent by the job, as truth": Case("silent", job={"silent": True}),
    "the event over the job: silent": Case("silent", props={"silent": "1"}, job={"silent": "0"}),
    "the event over the job: not silent": Case("told", props={"silent": "0"}, job={"silent": "1"}),
    "an empty property is no": Case("told", props={"silent": ""}, job={"silent": "1"}),
    "silent: 0": Case("told", job={"silent": 0}),
    "silent: no": Case("told", job={"silent": False}),
    "silent in Slack": Case("silent", channel="slack", props={"silent": "1"}),
    "silent in the app": Case("silent", channel="app", props={"silent": "1"}),
    "private ones ignore silent": Case("told", **MINE | {"props": {"author": "anna", "silent": "1"}}),
    "private ones ignore silent jobs": Case("told", **MINE, job={"silent": "1"}),
    "the filter says no": Case("filtered", filter=NEVER),
    "the filter says no to private ones": Case("filtered", **MINE, filter=NEVER),
    "the filter says yes": Case("told", filter="event.event == 'create' and event.props.a is not defined"),
    "the filter knows no config": Case("filtered", filter="config is defined or job is defined"),
    "silent before the filter": Case("silent", props={"silent": "1"}, filter=BROKEN),
    "the filter before nomail": Case("filtered", props={"nomail": "1"}, filter=NEVER),
    "nomail by the event": Case("nomail", props={"nomail": "1"}),
    "nomail by the job": Case("nomail", job={"nomail": "1"}),
    "nomail: the event over the job": Case("told", props={"nomail": "0"}, job={"nomail": "1"}),
    "nomail is for private ones too": Case("nomail", **MINE, job={"nomail": "1"}),
    "nomail is not for Slack": Case("told", channel="slack", props={"nomail": "1"}),
    "nomail is not for the app": Case("told", channel="app", props={"nomail": "1"}),
    "noslack by the event": Case("noslack", channel="slack", props={"noslack": "1"}),
    "noslack by the job": Case("noslack", channel="slack", job={"noslack": "1"}),
    "noslack: the event over the job": Case("told", channel="slack", props={"noslack": "0"}, job={"noslack": "1"}),
    "noslack is not for mail": Case("told", props={"noslack": "1"}),
    "silent before nomail": Case("silent", props={"silent": "1", "nomail": "1"}),
    "mail about progress": Case("progress", "progress"),
    "mail about a set's progress": Case("progress", "progressJobSet"),
    "Slack about progress": Case("told", "progress", channel="slack"),
    "the app about progress": Case("told", "progress", channel="app"),
    "nomail before progress": Case("nomail", "progress", props={"nomail": "1"}),
    "progress by the observer": Case("told", "progress", config={"mail_progress": "1"}),
    "progress by the observer, as truth": Case("told", "progress", config={"mail_progress": True}),
    "no progress by the observer": Case("progress", "progress", config={"mail_progress": "0"}),
    "progress by the job": Case("told", "progress", job={"mail_progress": "1"}),
    "progress by the event": Case("told", "progress", props={"mail_progress": "1"}),
    "a set's progress by the event": Case("told", "progressJobSet", props={"mail_progress": "1"}),
    "no progress: the event over the job": Case(
        "progress", "progress", props={"mail_progress": "0"}, job={"mail_progress": "1"}
    ),
    "progress for private ones": Case("progress", "progress", **MINE),
}


@pytest.mark.parametrize("name", CASES)
def test_who_is_told_and_why_not(here: Site, name: str) -> None:
    case = CASES[name]
    here.jobs({"backup": case.job})
    user = {"user": "anna"} if case.scope == "private" else {}
    config = {"to": "anna@example.org", **case.config} if case.channel == "mail" else case.config
    here.put("ops", case.channel, scope=case.scope, filter=case.filter, config=config, **user)
    here.publish(job("create"))
    (event,) = here.publish(job(case.event, props=case.props))
    found = here.told("ops", event)
    assert (found.reason if isinstance(found, Dropped) else "told") == case.outcome


def test_a_filter_that_fails_parks_its_delivery_with_the_reason(here: Site) -> None:
    here.put("ops", filter=BROKEN)
    here.publish(job("create"))
    here.observe()
    (waiting,) = here.waiting("ops")
    outcome = here.attempt(waiting)
    assert isinstance(outcome, Failed)
    assert outcome.pause_s is None
    assert outcome.error.startswith("the filter: ")


@pytest.mark.parametrize("name", ["silent", "nomail"])
def test_a_redirect_is_told_like_the_rest_of_its_job(here: Site, name: str) -> None:
    """It names neither type nor properties, but its job has both."""
    here.jobs({"quiet": {name: "1"}})
    here.put("ops")
    here.publish(job("create", 1, props={name: "1"}), job("create", 2, type="quiet"), job("create", 3))
    redirects = here.publish(*(job("redirect", number) for number in (1, 2, 3)))
    outcomes = [here.told("ops", event) for event in redirects]
    assert [one.reason if isinstance(one, Dropped) else "told" for one in outcomes] == [name, name, "told"]


def test_jobs_are_configured_by_the_file_of_observers(anna: Teller) -> None:
    """The same over HTTP: the file's jobs belong to the first organization."""
    local = teller(anna.member.server, anna.world, "local")
    name = f"jobs-{anna.name}"
    local.put(name, config={"to": anna.address})
    types = ("backup", "quiet", "unmailed", "unslacked", "chatty")
    for number, kind in enumerate(types, start=1000):
        local.publish(job("create", number, type=kind), job("progress", number, type=kind))
    found = local.settled(name, 10)
    assert found == {"sent": 4, "dropped": 6}
    assert anna.world.subjects(anna.address) == ["Job created", "Job created", "Job created", "Job is running"]
    assert local.ask("DELETE", name).status_code == 200
