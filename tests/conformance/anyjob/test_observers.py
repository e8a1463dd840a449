"""AnyJob's observers, row by row: real mail, a real webhook, over HTTP."""

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
import trustme

from tests.notifications.narration import Teller, job, settings, teller
from tests.notifications.outside import Outside, eventually, outside, text_of
from tests.serving import Server, new_name, serving

SHOWN = "event={{ event }} type={{ type }} time={{ time }} config={{ config.team|default }} job={{ job.label|default }}"
FILE = """
jobs:
  backup: {label: Nightly backup}
  quiet: {silent: "1"}
  chatty: {mail_progress: "1"}
  dedicated: {observer: mine}
"""


@pytest.fixture(scope="module", name="authority")
def an_authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module", name="world")
def a_world(authority: trustme.CA) -> Iterator[Outside]:
    with outside(authority) as found:
        yield found


@pytest.fixture(scope="module", name="server")
def a_telling_server(
    world: Outside, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("anyjob")
    templates = folder / "templates" / "mail"
    templates.mkdir(parents=True)
    (templates / "create.text.j2").write_text(SHOWN)
    (templates / "createJobSet.text.j2").write_text("{{ 'job' if job is defined else 'no job' }}")
    environment = settings(world, folder, authority, FILE) | {"TEMPLATES_PATH": str(templates.parent)}
    with serving(folder / "data", **environment) as running:
        yield running


@pytest.fixture(name="anna")
def a_teller(server: Server, world: Outside) -> Teller:
    return teller(server, world)


@pytest.fixture(name="local")
def a_teller_whose_jobs_are_configured(server: Server, world: Outside) -> Iterator[Teller]:
    """The file's jobs belong to the first organization; what was observed there ends with the test."""
    found = teller(server, world, "local")
    world.box.mails.clear()
    yield found
    for observer in found.member.get("/observers").json()["observers"]:
        found.ask("DELETE", observer["name"])


def subjects(anna: Teller) -> list[str]:
    return anna.world.subjects(anna.address)


def titles(anna: Teller) -> list[str]:
    return [post["title"].partition(":")[0] for post in anna.world.slack.of(anna.channel)]


def test_a01_an_unknown_event_is_refused_and_nothing_is_sent(anna: Teller) -> None:
    anna.put("ops")
    answer = anna.member.ask("POST", "/events/job", json={"events": [job("explode")]})
    assert answer.status_code == 400
    assert "explode" in answer.json()["detail"]
    anna.publish(job("create"))
    assert anna.settled("ops", 1) == {"sent": 1}
    assert subjects(anna) == ["Job created"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (None, ["Job created", "Job redirected", "Job finished", "Job Set created"]),
        ("all", ["Job created", "Job redirected", "Job finished", "Job Set created"]),
        ("create,finish", ["Job created", "Job finished"]),
        (" create , finish ", ["Job created", "Job finished"]),
    ],
)
def test_a03_an_observer_gets_the_events_that_it_lists(anna: Teller, events: str | None, expected: list[str]) -> None:
    anna.put("ops", "slack", **({} if events is None else {"events": events}))
    anna.publish(job("create"), job("redirect"), job("finish"), job("createJobSet"))
    assert anna.settled("ops", len(expected)) == {"sent": len(expected)}
    assert titles(anna) == expected


def test_a05_an_event_for_an_observer_reaches_that_one_too_and_job_configuration_is_not_asked(local: Teller) -> None:
    local.put("all-a05", "app", config={"to": "a05"})
    local.put("mine", "app", scope="private", user="a05-owner")
    local.publish(job("create", 501, props={"observer": "mine"}), job("create", 502, type="dedicated"))
    assert (local.settled("all-a05", 2), local.settled("mine", 1)) == ({"sent": 2}, {"sent": 1})
    (message,) = local.inbox("a05-owner")
    assert message["body"].startswith("backup #501")


def test_a06_silent_events_are_dropped_but_not_by_private_observers(local: Teller) -> None:
    local.put("all-a06", "app", config={"to": "a06"})
    local.put("mine-a06", "app", scope="private", user="a06-owner")
    owner = {"author": "a06-owner"}
    local.publish(
        job("create", 601, props={**owner, "silent": "1"}),
        job("create", 602, props=owner, type="quiet"),
        job("create", 603, props={**owner, "silent": "0"}, type="quiet"),
    )
    assert (local.settled("all-a06", 3), local.settled("mine-a06", 3)) == ({"dropped": 2, "sent": 1}, {"sent": 3})
    (message,) = local.inbox("a06")
    assert message["body"].startswith("quiet #603")


def test_a09_a_filter_lets_pass_what_it_is_true_for(anna: Teller) -> None:
    anna.put("filtered", "slack", filter="event.event != 'progress'")
    anna.put("all", "app")
    anna.publish(job("create"), job("progress"), job("finish"))
    assert (anna.settled("filtered", 3), anna.settled("all", 3)) == ({"sent": 2, "dropped": 1}, {"sent": 3})
    assert titles(anna) == ["Job created", "Job finished"]


@pytest.mark.parametrize(
    ("config", "props", "kind", "expected"),
    [
        ({}, {}, "backup", []),
        ({"mail_progress": "1"}, {}, "backup", ["Job is running"]),
        ({}, {"mail_progress": "1"}, "backup", ["Job is running"]),
        ({}, {}, "chatty", ["Job is running"]),
        ({}, {"mail_progress": "0"}, "chatty", []),
    ],
)
def test_a10_progress_is_mailed_to_those_who_want_it_and_logged_for_all(
    local: Teller, config: dict[str, str], props: dict[str, str], kind: str, expected: list[str]
) -> None:
    name = new_name()
    local.put(name, config=config)
    about = {"type": kind, "props": props}
    local.publish(job("create", 1001, **about), job("progress", 1001, log={"message": "half-way"}, **about))
    local.publish(job("finish", 1001, **about))
    local.settled(name, 3)
    assert subjects(local) == ["Job created", *expected, "Job finished"]
    finish = local.world.mails(local.address)[-1]
    assert "half-way" in text_of(finish)


def test_a12_templates_see_the_event_its_config_and_the_jobs_and_formatted_times(local: Teller) -> None:
    local.put("ops-a12", config={"team": "storage", "time_format": "%Y", "time_zone": "Europe/Berlin"})
    local.publish(job("create", 1201), job("createJobSet", 1202))
    assert local.settled("ops-a12", 2) == {"sent": 2}
    created, of_set = (text_of(mail).strip() for mail in local.world.mails(local.address))
    year = created.partition("time=")[2].split()[0]
    assert created == f"event=create type=backup time={year} config=storage job=Nightly backup"
    assert (len(year), year.isdigit(), of_set) == (4, True, "no job")


def test_a13_the_subjects_of_mails_about_jobs(anna: Teller) -> None:
    anna.put("ops", config={"mail_progress": "1"})
    anna.publish(*(job(name) for name in ("create", "redirect", "progress", "finish", "clean")))
    assert anna.settled("ops", 5) == {"sent": 5}
    expected = ["Job created", "Job redirected", "Job is running", "Job finished", "Job cleaned"]
    assert subjects(anna) == expected


def test_a14_the_subjects_of_mails_about_sets_of_jobs(anna: Teller) -> None:
    anna.put("ops", config={"mail_progress": "1"})
    anna.publish(*(job(f"{name}JobSet", number) for number, name in enumerate(("create", "progress"), 1)))
    anna.publish(job("finishJobSet", 1), job("cleanJobSet", 2))
    assert anna.settled("ops", 4) == {"sent": 4}
    expected = ["Job Set created", "Job Set is running", "Job Set finished", "Job Set cleaned"]
    assert subjects(anna) == expected


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        ({}, None),
        ({"author": "anna"}, "anna"),
        ({"author": "anna", "creator": "web"}, "anna (web)"),
        ({"author": "anna", "creator": "slack"}, "anna"),
    ],
)
def test_a16_slack_names_the_author_and_where_they_were(
    anna: Teller, props: dict[str, str], expected: str | None
) -> None:
    anna.put("chat", "slack")
    anna.publish(job("create", props=props))
    assert anna.settled("chat", 1) == {"sent": 1}
    (post,) = anna.world.slack.of(anna.channel)
    assert post.get("author_name") == expected


def test_a17_each_address_gets_a_message_of_its_own(anna: Teller) -> None:
    to = [anna.address, f"b.{anna.address}"]
    anna.put("ops", config={"to": ", ".join(to)})
    anna.publish(job("create"), job("finish"))
    assert anna.settled("ops", 4) == {"sent": 4}
    for address in to:
        for mail in anna.world.mails(address):
            assert (mail["To"], mail["From"]) == (address, "AnyJob <annals@example.org>")
            assert "<html" in text_of(mail, "html")
    ids = {str(mail["Message-ID"]) for address in to for mail in anna.world.mails(address)}
    assert len(ids) == 4


def test_a17_a_title_is_encoded_where_it_must_be(anna: Teller) -> None:
    anna.put("titled", config={"title": "Bänke"})
    anna.publish(job("create"))
    assert anna.settled("titled", 1) == {"sent": 1}
    (envelope,) = (mail for mail in anna.world.box.mails if anna.address in mail.rcpt_tos)
    assert b"=?utf-8?b?QsOkbmtl?=" in _bytes(envelope.content)
    (mail,) = anna.world.mails(anna.address)
    assert (mail["From"], mail["Subject"]) == ("Bänke <annals@example.org>", "Job created")


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ({"channel": "mail", "config": {}}, "No origin or destination address"),
        ({"channel": "slack", "config": {}}, "No destination URL"),
    ],
)
def test_a18_who_could_tell_nobody_is_refused(anna: Teller, configuration: dict[str, object], reason: str) -> None:
    answer = anna.ask("PUT", "ops", configuration)
    assert (answer.status_code, answer.json()["detail"]) == (400, reason)


def test_a18_a_sender_who_is_missing_is_refused(tmp_path: Path, world: Outside, authority: trustme.CA) -> None:
    environment = settings(world, tmp_path, authority) | {"MAIL_FROM": ""}
    with serving(tmp_path / "data", **environment) as server:
        anna = teller(server, world)
        answer = anna.ask("PUT", "ops", anna.configuration("mail"))
        assert (answer.status_code, answer.json()["detail"]) == (400, "No origin or destination address")


def test_a19_a_webhook_that_refuses_is_tried_again_or_the_event_is_kept_as_a_failure(anna: Teller) -> None:
    anna.world.slack.answer(anna.channel, iter(["500 Oops", "200 OK", "404 Gone"]))
    anna.put("chat", "slack")
    anna.publish(job("create", 1))
    assert anna.settled("chat", 1) == {"sent": 1}
    anna.publish(job("create", 2))
    (failure,) = anna.failures("chat")
    assert (failure["key"], failure["error"].partition(" ")[2]) == ("/job/2", "answered 404")
    anna.world.slack.answer(anna.channel, repeat("200 OK"))
    assert anna.ask("POST", "chat/retry").json() == {"retried": 1}
    assert anna.settled("chat", 2) == {"sent": 2}
    assert [post["title"] for post in anna.world.slack.of(anna.channel)] == [
        "Job created: backup #1",
        "Job created: backup #2",
    ]


def test_a31_a_job_that_is_silent_for_too_long_is_cleaned_from_its_last_word_on(anna: Teller) -> None:
    anna.put("ops", events="create,finish,clean")
    props = {"clean_timeout": "2"}
    anna.publish(job("create", 1, props=props), job("progress", 1, props=props), job("create", 2))
    eventually(lambda: subjects(anna), lambda them: "Job cleaned" in them)
    assert anna.settled("ops", 3) == {"sent": 3}
    assert sorted(subjects(anna)) == ["Job cleaned", "Job created", "Job created"]


NASTY = 'a "quote", a \\ backslash,\na line, \t a tab, </script> & \u2028 \x07 ü 😀'


def test_a32_whatever_a_value_holds_the_webhook_gets_json(anna: Teller) -> None:
    anna.put("chat", "slack")
    anna.publish(job("create", type="x", params={NASTY: NASTY}, props={"author": NASTY}))
    anna.publish(job("finish", type="x", message=NASTY))
    assert anna.settled("chat", 2) == {"sent": 2}
    created, finished = anna.world.slack.of(anna.channel)
    shown = NASTY.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert (created["author_name"], finished["text"]) == (shown, shown)
    assert shown in [one["value"] for one in created["fields"]]


def _bytes(content: str | bytes | None) -> bytes:
    return content if isinstance(content, bytes) else b""
