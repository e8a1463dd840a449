"""Configurations that could never tell anything: refused, in words that say what is wrong."""

from typing import Any

import pytest

from tests.notifications.narration import Teller, job
from tests.notifications.outside import Json

MAIL: Json = {"channel": "mail", "config": {"to": "ops@example.org"}}
APP: Json = {"channel": "app", "config": {"to": "anna"}}


def mail(**config: Any) -> Json:
    return {"channel": "mail", "config": {"to": "ops@example.org", **config}}


def slack(url: Any) -> Json:
    return {"channel": "slack", "config": {"url": url}}


REFUSED: dict[str, tuple[object, str]] = {
    "no channel": ({"config": {}}, "channel"),
    "an unknown channel": ({**MAIL, "channel": "pigeon"}, "'mail', 'slack' or 'app'"),
    "an unknown scope": ({**MAIL, "scope": "all"}, "'global' or 'private'"),
    "an unknown member": ({**MAIL, "colour": "red"}, "colour"),
    "both types and events": ({**MAIL, "types": ["job/*"], "events": "all"}, "either types, or events and nodes"),
    "both types and nodes": ({**MAIL, "types": ["job/*"], "nodes": "n1"}, "either types, or events and nodes"),
    "an unknown event": ({**MAIL, "events": "create, explode"}, "there is no event 'explode', only all, create"),
    "an event of another case": ({**MAIL, "events": "Create"}, "there is no event 'Create'"),
    "a broken pattern": ({**MAIL, "types": ["job/*/finish"]}, "types"),
    "a broken filter": ({**MAIL, "filter": "event.event !="}, "a filter is an expression such as"),
    "a filter that is a statement": ({**MAIL, "filter": "{% for x in y %}"}, "a filter is an expression such as"),
    "a filter that is too long": ({**MAIL, "filter": "1" * 2001}, "filter"),
    "a user of a global one": ({**MAIL, "user": "anna"}, "only a private observer has a user"),
    "mail to nobody": ({"channel": "mail"}, "No origin or destination address"),
    "mail to nothing but commas": (mail(to=" , ,"), "No origin or destination address"),
    "mail to what is no address": (mail(to="ops@example.org, ops"), "'ops' is not a mail address"),
    "mail to a list": (mail(to=["ops@example.org"]), "is not a mail address"),
    "mail from what is no address": (mail(**{"from": "Annals"}), "'Annals' is not a mail address"),
    "another header in to": (mail(to="a@example.org\r\nBcc: b@example.org"), "is not a mail address"),
    "another header in from": (mail(**{"from": "a@example.org\nBcc: b@example.org"}), "is not a mail address"),
    "another command in to": (mail(to="a@example.org>\r\nDATA"), "is not a mail address"),
    "Slack without a URL": ({"channel": "slack"}, "No destination URL"),
    "a URL that is none": (slack("https://[::1"), "its host or its port is malformed"),
    "a URL that is not encrypted": (slack("http://localhost/x"), "does not begin with https://"),
    "a URL of another host": (slack("https://example.org/x"), "'example.org' is not among the hosts"),
    "a URL of this machine": (slack("https://127.0.0.1/x"), "'127.0.0.1' is not among the hosts"),
    "a URL of a private network": (slack("https://10.0.0.1/x"), "'10.0.0.1' is not among the hosts"),
    "a URL of a cloud's credentials": (slack("https://169.254.169.254/latest"), "is not among the hosts"),
    "a URL with a password": (slack("https://a:b@hooks.slack.com/x"), "holds a user or a password"),
    "a URL with another header": (slack("https://localhost/x\r\nX-A: b"), "a character that no URL may hold"),
    "the app for nobody": ({"channel": "app"}, "config.to: name the users"),
    "the app for a list": ({"channel": "app", "config": {"to": ["anna"]}}, "config.to"),
    "the app for nothing but commas": ({"channel": "app", "config": {"to": " , "}}, "config.to"),
    "the own app for somebody else": ({**APP, "scope": "private"}, "tells its own user"),
    "a time zone that is none": (mail(time_zone="Mars/Base"), "time_zone"),
    "a form of times that is a book": (mail(time_format="%c" * 51), "time_format: it is longer than 100 characters"),
    "mail to a crowd": (mail(to="a@example.org," * 101), "config.to: an observer tells at most 100"),
    "the app for a crowd": ({"channel": "app", "config": {"to": "anna," * 101}}, "config.to: an observer tells"),
    "a config that is a list": ({**MAIL, "config": []}, "config"),
    "no object": ([], ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused_with_its_reason(anna: Teller, name: str) -> None:
    configuration, reason = REFUSED[name]
    answer = anna.ask("PUT", "ops", configuration)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text
    assert reason in answer.json()["detail"], answer.text
    assert anna.ask("GET", "ops").status_code == 404


@pytest.mark.parametrize("name", ["-ops", "_", "a b", "a%2Fb", "é", "x" * 101, "a%0Ab"])
def test_names_that_no_observer_may_have(anna: Teller, name: str) -> None:
    answer = anna.ask("PUT", name, anna.configuration())
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text


def test_a_title_with_line_breaks_makes_no_other_header(anna: Teller) -> None:
    anna.put("ops", config={"title": "Ops\r\nBcc: eve@example.org\r\n\r\nHi"})
    anna.publish(job("create"))
    assert anna.settled("ops", 1) == {"sent": 1}
    (mail,) = anna.world.mails(anna.address)
    assert mail["Bcc"] is None
    assert mail["From"] == '"Ops Bcc: eve@example.org Hi" <annals@example.org>'


def test_what_was_refused_leaves_the_observer_as_it_was(anna: Teller) -> None:
    before = anna.put("ops", events="finish")
    assert anna.ask("PUT", "ops", {"channel": "mail"}).status_code == 400
    assert anna.ask("GET", "ops").json() == before
