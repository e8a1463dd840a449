"""Configurations that could never deliver a message are refused with a reason."""

from typing import Any

import pytest

from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job

MAIL: Json = {"channel": "mail", "config": {"to": "ops@example.org"}}
APP: Json = {"channel": "app", "config": {"to": "anna"}}


def mail(**config: Any) -> Json:
    return {"channel": "mail", "config": {"to": "ops@example.org", **config}}


def slack(url: Any) -> Json:
    return {"channel": "slack", "config": {"url": url}}


def webhook(url: str, **config: Any) -> Json:
    return {"channel": "webhook", "config": {"url": url, **config}}


def apprise(*urls: str) -> Json:
    return {"channel": "apprise", "config": {"urls": urls}}


REFUSED: dict[str, tuple[object, str]] = {
    "no channel": ({"config": {}}, "channel"),
    "an unknown channel": (
        {**MAIL, "channel": "pigeon"},
        "'mail', 'slack', 'app', 'webhook', 'apprise' or 'eventbridge'",
    ),
    "an unknown scope": ({**MAIL, "scope": "all"}, "'global' or 'private'"),
    "an unknown field": ({**MAIL, "colour": "red"}, "colour"),
    "both types and events": ({**MAIL, "types": ["job/*"], "events": "all"}, "either types, or events and nodes"),
    "both types and nodes": ({**MAIL, "types": ["job/*"], "nodes": "n1"}, "either types, or events and nodes"),
    "an unknown event": ({**MAIL, "events": "create, explode"}, "unknown event 'explode'; use all, create"),
    "an event of another case": ({**MAIL, "events": "Create"}, "unknown event 'Create'"),
    "a wildcard as a node": ({**MAIL, "nodes": "n1, *"}, "nodes: 'all' or names separated by commas, not '*'"),
    "a wildcard in a node": ({**MAIL, "nodes": "web?"}, "without '?', '*' or '/'"),
    "a path as a node": ({**MAIL, "nodes": "dc1/n1", "events": "all"}, "not 'dc1/n1'"),
    "nodes as a list": ({**MAIL, "nodes": ["n1"]}, "nodes"),
    "nodes too long": ({**MAIL, "nodes": "n" * 2001}, "nodes"),
    "a broken pattern": ({**MAIL, "types": ["job/*/finish"]}, "types"),
    "a broken filter": ({**MAIL, "filter": "event.event !="}, "a filter is an expression such as"),
    "a filter that is a statement": ({**MAIL, "filter": "{% for x in y %}"}, "a filter is an expression such as"),
    "a filter that is too long": ({**MAIL, "filter": "1" * 2001}, "filter"),
    "a user of a global observer": ({**MAIL, "user": "anna"}, "only a private observer has a user"),
    "an unknown condition": ({**MAIL, "when": "sometimes"}, "when is every, change, recovered or failures(n)"),
    "an unknown digest": ({**MAIL, "digest": "daily"}, "or times of day such as '08:00, 16:00'"),
    "an unknown throttle": ({**MAIL, "throttle": "daily"}, "a duration is 60, 60s"),
    "quiet hours of words": ({**MAIL, "quiet": "at night"}, "quiet hours are written as 22:00-07:00"),
    "an unknown group": ({**MAIL, "group_by": ["author"]}, "group_by"),
    "an unknown zone": ({**MAIL, "time_zone": "Europe/Ulm"}, "unknown time zone 'Europe/Ulm'"),
    "mail without recipient": ({"channel": "mail"}, "No origin or destination address"),
    "mail to commas only": (mail(to=" , ,"), "No origin or destination address"),
    "mail to an invalid address": (mail(to="ops@example.org, ops"), "'ops' is not a mail address"),
    "mail to a list": (mail(to=["ops@example.org"]), "is not a mail address"),
    "mail from an invalid address": (mail(**{"from": "Annals"}), "'Annals' is not a mail address"),
    "another header in to": (mail(to="a@example.org\r\nBcc: b@example.org"), "is not a mail address"),
    "another header in from": (mail(**{"from": "a@example.org\nBcc: b@example.org"}), "is not a mail address"),
    "another command in to": (mail(to="a@example.org>\r\nDATA"), "is not a mail address"),
    "Slack without a URL": ({"channel": "slack"}, "No destination URL"),
    "a malformed URL": (slack("https://[::1"), "has a malformed host or port"),
    "a URL that is not encrypted": (slack("http://localhost/x"), "does not begin with https://"),
    "a URL of another host": (slack("https://example.org/x"), "'example.org' is not among the allowed hosts"),
    "a URL of this machine": (slack("https://127.0.0.1/x"), "'127.0.0.1' is not among the allowed hosts"),
    "a URL of a private network": (slack("https://10.0.0.1/x"), "'10.0.0.1' is not among the allowed hosts"),
    "a URL of a cloud's credentials": (slack("https://169.254.169.254/latest"), "is not among the allowed hosts"),
    "a URL with a password": (slack("https://a:b@hooks.slack.com/x"), "contains a user or a password"),
    "a URL with another header": (slack("https://localhost/x\r\nX-A: b"), "a character that is not allowed in URLs"),
    "a webhook without a URL": ({"channel": "webhook"}, "No destination URL"),
    "a webhook that is not encrypted": (webhook("http://example.org/x"), "is not encrypted"),
    "a webhook of this machine": (webhook("https://localhost/x"), "'localhost' is not a public host"),
    "a webhook of a private network": (webhook("https://10.0.0.1/x"), "'10.0.0.1' is not a public host"),
    "a webhook of a cloud's credentials": (webhook("https://169.254.169.254/x"), "is not a public host"),
    "a webhook with a password": (webhook("https://a:b@example.org/x"), "contains a user or a password"),
    "a short secret": (webhook("https://example.org/x", secret="whsec_c2hvcnQ="), "config.secret: a secret is"),
    "a secret without prefix": (webhook("https://example.org/x", secret="A" * 44), "config.secret: a secret is"),
    "a secret that is a number": (webhook("https://example.org/x", secret=7), "config.secret: a secret is"),
    "Apprise without URLs": ({"channel": "apprise"}, "config.urls: a list of 1 to 20 Apprise URLs"),
    "Apprise with an unknown URL": (apprise("nowhere://x"), "config.urls: URL 1: not a URL that Apprise knows"),
    "Apprise with a file": (apprise("ntfys://topic", "file:///etc/passwd"), "config.urls: URL 2: not a URL"),
    "Apprise on this machine": (apprise("syslog://"), "config.urls: URL 1: 'syslog' is not available"),
    "Apprise in a private network": (apprise("jsons://10.0.0.1/x"), "'10.0.0.1' is not a public host"),
    "an event bus on one machine": (
        {"channel": "eventbridge", "config": {"bus": "default"}},
        "channel: 'eventbridge' is available only on AWS, not on one machine",
    ),
    "app without users": ({"channel": "app"}, "config.to: name the users"),
    "app with a list of users": ({"channel": "app", "config": {"to": ["anna"]}}, "config.to"),
    "app with commas only": ({"channel": "app", "config": {"to": " , "}}, "config.to"),
    "private app observer with to": ({**APP, "scope": "private"}, "notifies only its own user"),
    "an unknown time zone": (mail(time_zone="Mars/Base"), "time_zone"),
    "a long time format": (mail(time_format="%c" * 51), "time_format: longer than 100 characters"),
    "mail to too many": (mail(to="a@example.org," * 101), "config.to: at most 100 addresses"),
    "app for too many": ({"channel": "app", "config": {"to": "anna," * 101}}, "config.to: at most 100 addresses"),
    "a config that is a list": ({**MAIL, "config": []}, "config"),
    "not an object": ([], ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_put_invalid_configuration_returns_400_with_reason(anna: ObserverClient, name: str) -> None:
    configuration, reason = REFUSED[name]
    answer = anna.request("PUT", "ops", configuration)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text
    assert reason in answer.json()["detail"], answer.text
    assert anna.request("GET", "ops").status_code == 404


@pytest.mark.parametrize("name", ["-ops", "_", "a b", "a%2Fb", "é", "x" * 101, "a%0Ab"])
def test_put_invalid_name_returns_400(anna: ObserverClient, name: str) -> None:
    answer = anna.request("PUT", name, anna.configuration())
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text


def test_title_with_line_breaks_adds_no_header(anna: ObserverClient) -> None:
    anna.put("ops", config={"title": "Ops\r\nBcc: eve@example.org\r\n\r\nHi"})
    anna.publish(job("create"))
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    (mail,) = anna.channels.mails(anna.address)
    assert mail["Bcc"] is None
    assert mail["From"] == '"Ops Bcc: eve@example.org Hi" <annals@example.org>'


def test_refused_put_leaves_observer_unchanged(anna: ObserverClient) -> None:
    before = anna.put("ops", events="finish")
    assert anna.request("PUT", "ops", {"channel": "mail"}).status_code == 400
    assert anna.request("GET", "ops").json() == before
