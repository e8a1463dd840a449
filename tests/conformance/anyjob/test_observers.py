"""AnyJob's observers over HTTP, with a mail server and a webhook. Names refer to rows of the conformance table."""

import re
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
import trustme

from tests.notifications.fake_channels import FakeChannels, eventually, mail_text, run_fake_channels
from tests.notifications.observer_client import ObserverClient, create_observer_client, job, server_environment
from tests.serving import Server, new_organization_name, run_server

TEMPLATE = (
    "event={{ event }} type={{ type }} time={{ time }} config={{ config.team|default }} job={{ job.label|default }}"
)
FILE = """
jobs:
  backup: {label: Nightly backup}
  quiet: {silent: "1"}
  chatty: {mail_progress: "1"}
  dedicated: {observer: mine}
"""


@pytest.fixture(scope="module", name="authority")
def create_authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module", name="channels")
def create_channels(authority: trustme.CA) -> Iterator[FakeChannels]:
    with run_fake_channels(authority) as channels:
        yield channels


@pytest.fixture(scope="module", name="server")
def observing_server(
    channels: FakeChannels, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("anyjob")
    templates = folder / "templates" / "mail"
    templates.mkdir(parents=True)
    (templates / "create.text.j2").write_text(TEMPLATE)
    (templates / "createJobSet.text.j2").write_text("{{ 'job' if job is defined else 'no job' }}")
    environment = server_environment(channels, folder, authority, FILE) | {"TEMPLATES_PATH": str(templates.parent)}
    with run_server(folder / "data", **environment) as running:
        yield running


@pytest.fixture(name="anna")
def create_client(server: Server, channels: FakeChannels) -> ObserverClient:
    return create_observer_client(server, channels)


@pytest.fixture(name="local")
def client_with_configured_jobs(server: Server, channels: FakeChannels) -> Iterator[ObserverClient]:
    """A client of the first organization, to which the configured jobs belong. Its observers are deleted afterwards."""
    client = create_observer_client(server, channels, "local")
    channels.mailbox.mails.clear()
    yield client
    for observer in client.member.get("/observers").json()["observers"]:
        client.request("DELETE", observer["name"])


def headings(anna: ObserverClient) -> list[str]:
    """The headings of the mails. Their subjects also name the result, the job and its node."""
    return [
        heading
        for mail in anna.channels.mails(anna.address)
        for heading in re.findall("<h1[^>]*>(.*?)</h1>", mail_text(mail, "html"))
    ]


def titles(anna: ObserverClient) -> list[str]:
    """The first words of the titles in Slack."""
    return [post["title"].split()[0] for post in anna.channels.slack.attachments(anna.slack_channel)]


def test_a01_unknown_event_is_rejected_and_nothing_is_sent(anna: ObserverClient) -> None:
    anna.put("ops")
    answer = anna.member.request("POST", "/events/job", json={"events": [job("explode")]})
    assert answer.status_code == 400
    assert "explode" in answer.json()["detail"]
    anna.publish(job("create"))
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    assert headings(anna) == ["Job created"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (None, ["Created", "Redirected", "Succeeded", "Created"]),
        ("all", ["Created", "Redirected", "Succeeded", "Created"]),
        ("create,finish", ["Created", "Succeeded"]),
        (" create , finish ", ["Created", "Succeeded"]),
    ],
)
def test_a03_observer_receives_listed_events(anna: ObserverClient, events: str | None, expected: list[str]) -> None:
    anna.put("ops", "slack", **({} if events is None else {"events": events}))
    anna.publish(job("create"), job("redirect"), job("finish"), job("createJobSet"))
    assert anna.wait_until_settled("ops", len(expected)) == {"sent": len(expected)}
    assert titles(anna) == expected


@pytest.mark.parametrize("lists", [{"nodes": "all"}, {"events": "all", "nodes": "all"}, {"events": "create, all"}])
def test_a03_all_means_all(anna: ObserverClient, lists: dict[str, str]) -> None:
    anna.put("ops", "slack", **lists)
    anna.publish(job("create"), job("create", 2, node="n2"), job("createJobSet", node="n3"))
    assert anna.wait_until_settled("ops", 3) == {"sent": 3}


def test_a05_event_addressed_to_observer_reaches_it(
    local: ObserverClient,
) -> None:
    local.put("all-a05", "app", config={"to": "a05"})
    local.put("mine", "app", scope="private", user="a05-owner")
    local.publish(job("create", 501, props={"observer": "mine"}), job("create", 502, type="dedicated"))
    assert (local.wait_until_settled("all-a05", 2), local.wait_until_settled("mine", 1)) == ({"sent": 2}, {"sent": 1})
    (message,) = local.inbox("a05-owner")
    assert message["body"].startswith("backup #501")


def test_a06_silent_events_reach_only_private_observers(local: ObserverClient) -> None:
    local.put("all-a06", "app", config={"to": "a06"})
    local.put("mine-a06", "app", scope="private", user="a06-owner")
    owner = {"author": "a06-owner"}
    local.publish(
        job("create", 601, props={**owner, "silent": "1"}),
        job("create", 602, props=owner, type="quiet"),
        job("create", 603, props={**owner, "silent": "0"}, type="quiet"),
    )
    assert (local.wait_until_settled("all-a06", 3), local.wait_until_settled("mine-a06", 3)) == (
        {"dropped": 2, "sent": 1},
        {"sent": 3},
    )
    (message,) = local.inbox("a06")
    assert message["body"].startswith("quiet #603")


def test_a09_filter_drops_events_for_which_it_is_false(anna: ObserverClient) -> None:
    anna.put("filtered", "slack", filter="event.event != 'progress'")
    anna.put("all", "app")
    anna.publish(job("create"), job("progress"), job("finish"))
    assert (anna.wait_until_settled("filtered", 3), anna.wait_until_settled("all", 3)) == (
        {"sent": 2, "dropped": 1},
        {"sent": 3},
    )
    assert titles(anna) == ["Created", "Succeeded"]


@pytest.mark.parametrize(
    ("config", "props", "job_type", "expected"),
    [
        ({}, {}, "backup", []),
        ({"mail_progress": "1"}, {}, "backup", ["Job is running"]),
        ({}, {"mail_progress": "1"}, "backup", ["Job is running"]),
        ({}, {}, "chatty", ["Job is running"]),
        ({}, {"mail_progress": "0"}, "chatty", []),
    ],
)
def test_a10_progress_is_mailed_if_configured(
    local: ObserverClient, config: dict[str, str], props: dict[str, str], job_type: str, expected: list[str]
) -> None:
    name = new_organization_name()
    local.put(name, config=config)
    fields = {"type": job_type, "props": props}
    local.publish(job("create", 1001, **fields), job("progress", 1001, log={"message": "half-way"}, **fields))
    local.publish(job("finish", 1001, **fields))
    local.wait_until_settled(name, 3)
    assert headings(local) == ["Job created", *expected, "Job finished"]
    finish = local.channels.mails(local.address)[-1]
    assert "half-way" in mail_text(finish)


def test_a12_template_variables(local: ObserverClient) -> None:
    local.put("ops-a12", config={"team": "storage", "time_format": "%Y", "time_zone": "Europe/Berlin"})
    local.publish(job("create", 1201), job("createJobSet", 1202))
    assert local.wait_until_settled("ops-a12", 2) == {"sent": 2}
    created, of_set = (mail_text(mail).strip() for mail in local.channels.mails(local.address))
    year = created.partition("time=")[2].split()[0]
    assert created == f"event=create type=backup time={year} config=storage job=Nightly backup"
    assert (len(year), year.isdigit(), of_set) == (4, True, "no job")


def test_a13_headings_of_job_mails(anna: ObserverClient) -> None:
    anna.put("ops", config={"mail_progress": "1"})
    anna.publish(*(job(name) for name in ("create", "redirect", "progress", "finish", "clean")))
    assert anna.wait_until_settled("ops", 5) == {"sent": 5}
    expected = ["Job created", "Job redirected", "Job is running", "Job finished", "Job cleaned"]
    assert headings(anna) == expected


def test_a14_headings_of_job_set_mails(anna: ObserverClient) -> None:
    anna.put("ops", config={"mail_progress": "1"})
    anna.publish(*(job(f"{name}JobSet", number) for number, name in enumerate(("create", "progress"), 1)))
    anna.publish(job("finishJobSet", 1), job("cleanJobSet", 2))
    assert anna.wait_until_settled("ops", 4) == {"sent": 4}
    expected = ["Job Set created", "Job Set is running", "Job Set finished", "Job Set cleaned"]
    assert headings(anna) == expected


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        ({}, None),
        ({"author": "anna"}, "anna"),
        ({"author": "anna", "creator": "web"}, "anna (web)"),
        ({"author": "anna", "creator": "slack"}, "anna"),
    ],
)
def test_a16_slack_message_names_author_and_creator(
    anna: ObserverClient, props: dict[str, str], expected: str | None
) -> None:
    anna.put("chat", "slack")
    anna.publish(job("create", props=props))
    assert anna.wait_until_settled("chat", 1) == {"sent": 1}
    (post,) = anna.channels.slack.attachments(anna.slack_channel)
    assert post.get("author_name") == expected


def test_a17_each_address_receives_a_separate_mail(anna: ObserverClient) -> None:
    to = [anna.address, f"b.{anna.address}"]
    anna.put("ops", config={"to": ", ".join(to)})
    anna.publish(job("create"), job("finish"))
    assert anna.wait_until_settled("ops", 4) == {"sent": 4}
    for address in to:
        for mail in anna.channels.mails(address):
            assert (mail["To"], mail["From"]) == (address, "Annals <annals@example.org>")
            assert "<html" in mail_text(mail, "html")
    ids = {str(mail["Message-ID"]) for address in to for mail in anna.channels.mails(address)}
    assert len(ids) == 4


def test_a17_non_ascii_title_is_encoded(anna: ObserverClient) -> None:
    anna.put("titled", config={"title": "Bänke"})
    anna.publish(job("create"))
    assert anna.wait_until_settled("titled", 1) == {"sent": 1}
    (envelope,) = (mail for mail in anna.channels.mailbox.mails if anna.address in mail.rcpt_tos)
    assert b"=?utf-8?b?QsOkbmtl?=" in _bytes(envelope.content)
    (mail,) = anna.channels.mails(anna.address)
    assert (mail["From"], mail["Subject"]) == ("Bänke <annals@example.org>", "Created backup on n1 (#1)")


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ({"channel": "mail", "config": {}}, "No origin or destination address"),
        ({"channel": "slack", "config": {}}, "No destination URL"),
    ],
)
def test_a18_observer_without_recipient_is_rejected(
    anna: ObserverClient, configuration: dict[str, object], reason: str
) -> None:
    answer = anna.request("PUT", "ops", configuration)
    assert (answer.status_code, answer.json()["detail"]) == (400, reason)


def test_a18_observer_without_sender_is_rejected(tmp_path: Path, channels: FakeChannels, authority: trustme.CA) -> None:
    environment = server_environment(channels, tmp_path, authority) | {"MAIL_FROM": ""}
    with run_server(tmp_path / "data", **environment) as server:
        anna = create_observer_client(server, channels)
        answer = anna.request("PUT", "ops", anna.configuration("mail"))
        assert (answer.status_code, answer.json()["detail"]) == (400, "No origin or destination address")


def test_a19_failed_webhook_is_retried_or_parked(anna: ObserverClient) -> None:
    anna.channels.slack.respond_with(anna.slack_channel, iter(["500 Oops", "200 OK", "404 Gone"]))
    anna.put("chat", "slack")
    anna.publish(job("create", 1))
    assert anna.wait_until_settled("chat", 1) == {"sent": 1}
    anna.publish(job("create", 2))
    (failure,) = anna.failures("chat")
    assert (failure["key"], failure["error"].partition(" ")[2]) == ("/job/2", "answered 404")
    anna.channels.slack.respond_with(anna.slack_channel, repeat("200 OK"))
    assert anna.request("POST", "chat/retry").json() == {"retried": 1}
    assert anna.wait_until_settled("chat", 2) == {"sent": 2}
    assert [post["title"] for post in anna.channels.slack.attachments(anna.slack_channel)] == [
        "Created backup on n1 (#1)",
        "Created backup on n1 (#2)",
    ]


def test_a31_job_without_events_is_cleaned_after_timeout(anna: ObserverClient) -> None:
    anna.put("ops", events="create,finish,clean")
    props = {"clean_timeout": "2"}
    anna.publish(job("create", 1, props=props), job("progress", 1, props=props), job("create", 2))
    eventually(lambda: headings(anna), lambda received: "Job cleaned" in received)
    assert anna.wait_until_settled("ops", 3) == {"sent": 3}
    assert sorted(headings(anna)) == ["Job cleaned", "Job created", "Job created"]


SPECIAL_CHARACTERS = 'a "quote", a \\ backslash,\na line, \t a tab, </script> & \u2028 \x07 ü 😀'


def test_a32_webhook_receives_valid_json_for_any_value(anna: ObserverClient) -> None:
    anna.put("chat", "slack")
    anna.publish(
        job("create", type="x", params={SPECIAL_CHARACTERS: SPECIAL_CHARACTERS}, props={"author": SPECIAL_CHARACTERS})
    )
    anna.publish(job("finish", type="x", message=SPECIAL_CHARACTERS))
    assert anna.wait_until_settled("chat", 2) == {"sent": 2}
    created, finished = anna.channels.slack.attachments(anna.slack_channel)
    escaped = SPECIAL_CHARACTERS.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert (created["author_name"], finished["text"]) == (escaped, escaped)
    assert escaped in [field["value"] for field in created["fields"]]


def _bytes(content: str | bytes | None) -> bytes:
    return content if isinstance(content, bytes) else b""
