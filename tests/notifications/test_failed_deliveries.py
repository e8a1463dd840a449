"""Failing, hanging and oversized deliveries over HTTP: parked or retried, without delaying others."""

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from time import monotonic

import pytest
import trustme

from tests.notifications.fake_channels import HANG, FakeChannels, eventually
from tests.notifications.observer_client import ObserverClient, create_observer_client, job, server_environment
from tests.serving import Server, run_server

TEMPLATES = {
    "app/create.body.j2": "{{ nothing_of_this_name }}",
    "app/redirect.body.j2": "{% for x in range(9**9) %}{% for y in range(9**9) %}{{ x }}{% endfor %}{% endfor %}",
    "app/progress.body.j2": "{{ 'x' * 9**9 }}",
    "app/finish.body.j2": "{% if %}",
    "app/clean.body.j2": "{{ ().__class__.__mro__[1].__subclasses__() }}",
    "app/createJobSet.body.j2": "{% include 'app/createJobSet.body.j2' %}",
    "app/progressJobSet.body.j2": "{% for x in range(9999) %}{% set y = [x] * 999 %}{% endfor %}",
    "app/finishJobSet.body.j2": "{% include '../../../../etc/passwd' %}",
    "slack/create.json.j2": '{"text": "{{ node }}",}',
}
ERRORS = {
    "create": "template app/create.body.j2, line 1: 'nothing_of_this_name' is undefined",
    "redirect": "template app/redirect.body.j2, line 1: it ",
    "progress": "template app/progress.body.j2, line 1: it makes a value larger than 1 MB",
    "finish": "template app/finish.body.j2, line 1: ",
    "clean": "template app/clean.body.j2, line 1: ",
    "createJobSet": "template app/createJobSet.body.j2, line 1: it is nested too deeply",
    "progressJobSet": "template app/progressJobSet.body.j2, line 1: it makes more than 8 MB of values",
    "finishJobSet": "template app/finishJobSet.body.j2, line 1: there is no template",
}


@pytest.fixture(scope="module", name="broken_server")
def a_server_with_broken_templates(
    channels: FakeChannels, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server whose template overrides all fail."""
    folder = tmp_path_factory.mktemp("broken")
    for name, text in TEMPLATES.items():
        (folder / "templates" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "templates" / name).write_text(text)
    environment = server_environment(channels, folder, authority) | {"TEMPLATES_PATH": str(folder / "templates")}
    with run_server(folder / "data", **environment) as running:
        yield running


def test_bad_template_parks_only_its_own_deliveries(broken_server: Server, channels: FakeChannels) -> None:
    anna = create_observer_client(broken_server, channels)
    anna.put("inbox", "app")
    anna.put("mailed", types=["job/*", "jobset/*"])
    anna.publish(job("create", 1), *(job(name, 1) for name in ERRORS if name != "create"), job("cleanJobSet", 2))
    failures = anna.failures("inbox", len(ERRORS))
    assert anna.wait_until_settled("inbox", 9) == {"parked": 8, "sent": 1}
    for failure, (name, error) in zip(failures, ERRORS.items(), strict=True):
        assert failure["error"].startswith(error), name
        assert (failure["tries"], failure["address"], failure["replay"]) == (1, "anna", None)
    assert [message["subject"] for message in anna.inbox()] == ["TIMED OUT job set on n1 (#2)"]
    assert anna.wait_until_settled("mailed", 9) == {"sent": 7, "dropped": 2}


def test_slack_template_with_invalid_json_is_not_posted(broken_server: Server, channels: FakeChannels) -> None:
    anna = create_observer_client(broken_server, channels)
    anna.put("chat", "slack")
    anna.publish(job("create", 1), job("finish", 1))
    assert anna.wait_until_settled("chat", 2) == {"parked": 1, "sent": 1}
    (failure,) = anna.failures("chat")
    assert failure["error"].startswith("template slack/create.json.j2: its output is not valid JSON")
    assert len(channels.slack.attachments(anna.slack_channel)) == 1


def test_retry_uses_repaired_template(tmp_path: Path, channels: FakeChannels, authority: trustme.CA) -> None:
    template = tmp_path / "templates" / "app" / "create.body.j2"
    template.parent.mkdir(parents=True)
    template.write_text("{{ oops }}")
    environment = server_environment(channels, tmp_path, authority) | {"TEMPLATES_PATH": str(tmp_path / "templates")}
    with run_server(tmp_path / "data", **environment) as server:
        anna = create_observer_client(server, channels)
        anna.put("inbox", "app")
        anna.publish(job("create"))
        anna.failures("inbox")
        template.write_text("repaired for {{ node }}")
        assert anna.request("POST", "inbox/retry").json() == {"retried": 1}
        assert anna.wait_until_settled("inbox", 1) == {"sent": 1}
        (message,) = anna.inbox()
    assert message["body"].strip() == "repaired for n1"


def test_hanging_slack_delays_neither_mail_nor_app(anna: ObserverClient) -> None:
    anna.channels.slack.respond_with(anna.slack_channel, repeat(HANG))
    for number in range(3):
        anna.put(f"chat-{number}", "slack")
    anna.put("mailed")
    anna.put("inbox", "app")
    before = monotonic()
    for number in range(20):
        anna.publish(job("create", number))
    assert (anna.wait_until_settled("mailed", 20), anna.wait_until_settled("inbox", 20)) == ({"sent": 20}, {"sent": 20})
    took_s = monotonic() - before
    assert [anna.deliveries(f"chat-{number}")["waiting"] for number in range(3)] == [20, 20, 20]
    assert took_s < 60, "one post after another would take minutes"
    for number in range(3):
        anna.request("DELETE", f"chat-{number}")


def test_busy_slack_is_retried_after_retry_after(anna: ObserverClient) -> None:
    anna.channels.slack.respond_with(anna.slack_channel, iter(["429 Too Many Requests\r\nRetry-After: 4"]))
    anna.put("chat", "slack")
    before = monotonic()
    anna.publish(job("create"))
    eventually(lambda: anna.channels.slack.rejected[f"/{anna.slack_channel}"])
    assert anna.wait_until_settled("chat", 1) == {"sent": 1}
    assert monotonic() - before > 4
    assert len(anna.channels.slack.attachments(anna.slack_channel)) == 1


def test_failures_are_paged_and_retried_singly_or_all(anna: ObserverClient) -> None:
    anna.channels.slack.respond_with(anna.slack_channel, repeat("404 No Such Channel", 5))
    anna.put("chat", "slack")
    anna.publish(*(job("create", number) for number in range(5)))
    failures = anna.failures("chat", 5)
    assert [failure["key"] for failure in failures] == [f"/job/{number}" for number in range(5)]
    first = failures[0]
    assert first["id"] == "{server}.{session}.{instance}/chat".format(**first["event"])
    assert (first["tries"], first["error"]) == (1, f"localhost:{anna.channels.slack.port} answered 404")
    assert _pages(anna, 2) == [[failure["id"] for failure in failures[at : at + 2]] for at in (0, 2, 4)]
    retry = anna.request("POST", "chat/retry", {"ids": [failures[2]["id"], "unknown"]})
    assert retry.json() == {"retried": 1}
    assert anna.wait_until_settled("chat", 5) == {"parked": 4, "sent": 1}
    assert anna.request("POST", "chat/retry").json() == {"retried": 4}
    assert anna.wait_until_settled("chat", 5) == {"sent": 5}
    assert anna.request("GET", "chat/failures").json() == {"failures": []}


@pytest.mark.parametrize("limit", ["0", "1001", "x"])
def test_failures_with_invalid_limit_returns_400(anna: ObserverClient, limit: str) -> None:
    anna.put("chat", "slack")
    assert anna.member.get("/observers/chat/failures", params={"limit": limit}).status_code == 400


def test_rejected_recipient_is_parked_alone(anna: ObserverClient) -> None:
    """Each address has its own message, so a rejected one affects no other."""
    box = anna.channels.mailbox
    anna.put("ops", config={"to": f"{anna.address}, other.{anna.address}"})
    box.answers["RCPT"] = "550 no such user"
    try:
        anna.publish(job("create"))
        assert anna.wait_until_settled("ops", 2) == {"parked": 2}
    finally:
        del box.answers["RCPT"]
    first, second = anna.failures("ops", 2)
    assert (first["address"], second["address"]) == (anna.address, f"other.{anna.address}")
    assert second["id"] == f"{first['id']}/2"
    assert anna.request("POST", "ops/retry", {"ids": [second["id"]]}).json() == {"retried": 1}
    assert anna.wait_until_settled("ops", 2) == {"parked": 1, "sent": 1}
    assert (anna.channels.subjects(anna.address), len(anna.channels.mails(f"other.{anna.address}"))) == ([], 1)


def test_deleting_observer_drops_its_waiting_deliveries(anna: ObserverClient) -> None:
    anna.channels.slack.respond_with(anna.slack_channel, chain(["503 Busy\r\nRetry-After: 3"], repeat("200 OK")))
    anna.put("chat", "slack")
    anna.publish(job("create", 1), job("progress", 1), job("finish", 1))
    eventually(lambda: anna.channels.slack.rejected[f"/{anna.slack_channel}"])
    assert anna.request("DELETE", "chat").status_code == 200
    anna.put("later", "slack")
    anna.publish(job("create", 2), job("create", 3))
    assert anna.wait_until_settled("later", 2) == {"sent": 2}
    titles = [post["title"] for post in anna.channels.slack.attachments(anna.slack_channel)]
    assert titles == ["Created backup on n1 (#2)", "Created backup on n1 (#3)"]


def _pages(anna: ObserverClient, limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    after = ""
    while True:
        failures = anna.member.get("/observers/chat/failures", params={"limit": limit, "after": after}).json()[
            "failures"
        ]
        if not failures:
            return pages
        pages.append([failure["id"] for failure in failures])
        after = pages[-1][-1]
