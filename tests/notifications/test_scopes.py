"""What templates see, and what the mails say: configurations, times, logs, links."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import AppMessage, Mail, SlackPost
from chalicelib.wiring.exports import reporting
from tests.notifications.narration import job
from tests.notifications.outside import Json
from tests.notifications.sites import Site, site
from tests.services.worlds import NOW_MS, World

NOW_S = NOW_MS // 1000
NAMES = (
    "event time node id type jobset params props state progress log data redirect success message jobs link config job"
)
SHOWN = ", ".join(f'"{name}": {{{{ ({name} if {name} is defined else none)|tojson }}}}' for name in NAMES.split())
PARTS = {"mail": ("text", "html", "subject"), "slack": ("json",), "app": ("subject", "body")}
TELL_ALL = {"text", "json", "body"}


@pytest.fixture(name="bare")
def a_bare_site(tmp_path: Path) -> Iterator[Site]:
    """Its templates tell all that they see, and nothing else."""
    templates = tmp_path / "templates"
    for channel, parts in PARTS.items():
        (templates / channel).mkdir(parents=True)
        for part in parts:
            text = f"{{{SHOWN}}}" if part in TELL_ALL else "{{ event }}"
            for name in ("create", "progress", "redirect", "finish", "createJobSet"):
                (templates / channel / f"{name}.{part}.j2").write_text(text)
    with site(tmp_path / "site", TEMPLATES_PATH=str(templates), PUBLIC_URL="https://annals.example/") as found:
        found.jobs({"backup": {"label": "Nightly"}})
        yield found


def seen(here: Site, name: str, event: Event) -> Json:
    """What the templates see: what is not there is left out."""
    found = here.told(name, event)
    match found:
        case Mail(text=text) | SlackPost(json=text) | AppMessage(body=text):
            return {key: value for key, value in json.loads(text).items() if value is not None}
    raise AssertionError(found)


CHANNELS = pytest.mark.parametrize("channel", ["mail", "slack", "app"])


@CHANNELS
def test_a_global_observer_shows_the_event_its_config_and_the_jobs(bare: Site, channel: str) -> None:
    configured = bare.put("ops", channel, config={"colour": "red"}).configuration.config
    (event,) = bare.publish(job("create", 5, jobset=7, params={"path": "/srv"}, props={"author": "anna"}))
    time = "2023-11-14 22:13:20 UTC" if channel == "mail" else NOW_S
    assert seen(bare, "ops", event) == {
        "event": "create",
        "time": time,
        "node": "n1",
        "id": 5,
        "jobset": 7,
        "type": "backup",
        "params": {"path": "/srv"},
        "props": {"author": "anna"},
        "link": "https://annals.example/jobs/5",
        "config": {key: value for key, value in configured.items() if key != "url"},
        "job": {"label": "Nightly"},
    }


@CHANNELS
def test_a_private_observer_shows_the_job_but_no_config(bare: Site, channel: str) -> None:
    bare.put("mine", channel, scope="private", user="anna", config={"colour": "red"})
    (event,) = bare.publish(job("create", props={"author": "anna"}))
    found = seen(bare, "mine", event)
    assert ("config" in found, found["job"]) == (False, {"label": "Nightly"})


def test_no_template_sees_the_webhook(bare: Site) -> None:
    bare.put("chat", "slack", config={"url": "https://hooks.slack.com/services/SECRET"})
    (event,) = bare.publish(job("create"))
    assert "SECRET" not in str(seen(bare, "chat", event))


def test_a_set_has_a_link_of_its_own_and_no_job(bare: Site) -> None:
    bare.put("ops")
    (event,) = bare.publish(job("createJobSet", 7))
    found = seen(bare, "ops", event)
    assert (found["link"], "job" in found) == ("https://annals.example/jobsets/7", False)


def test_a_job_without_configuration_has_an_empty_one(bare: Site) -> None:
    bare.put("ops")
    (event,) = bare.publish(job("create", type="unheard-of"))
    assert seen(bare, "ops", event)["job"] == {}


def test_without_a_public_address_there_is_no_link(here: Site) -> None:
    here.put("ops")
    (event,) = here.publish(job("create"))
    found = here.told("ops", event)
    assert isinstance(found, Mail)
    assert "http" not in found.text


def test_a_report_that_is_ready_is_mailed_with_its_link(here: Site) -> None:
    here.put("analysts", types=["report/ready/*"])
    reporting(here.parts).ready("report", lambda _: {"link": "https://reports.example.org/report-1.html"})
    here.observe()
    here.deliver()
    (mail,) = here.channels.sent
    assert isinstance(mail, Mail)
    assert "report/ready/report" in mail.subject
    assert "https://reports.example.org/report-1.html" in mail.text
    assert 'href="https://reports.example.org/report-1.html"' in (mail.html or "")


TIMES = {
    "by default": ({}, "2023-11-14 22:13:20 UTC"),
    "in a zone": ({"time_zone": "Europe/Berlin"}, "2023-11-14 23:13:20 CET"),
    "in a form": ({"time_format": "%d.%m.%Y %H:%M"}, "14.11.2023 22:13"),
    "in both": ({"time_zone": "Asia/Kolkata", "time_format": "%H:%M %z"}, "03:43 +0530"),
}


@pytest.mark.parametrize("name", TIMES)
def test_mails_tell_times_as_people_read_them(bare: Site, name: str) -> None:
    config, expected = TIMES[name]
    bare.put("ops", config={**config, "mail_progress": "1"})
    *_, event = bare.publish(job("create"), job("progress", log={"message": "hi"}))
    found = seen(bare, "ops", event)
    assert (found["time"], found["log"]["time"]) == (expected, expected)


def test_the_installation_says_how_times_read_where_no_observer_does(tmp_path: Path) -> None:
    with site(tmp_path, TIME_ZONE="America/New_York", TIME_FORMAT="%H h %Z") as here:
        here.put("ops")
        here.put("own", config={"time_zone": "UTC"})
        (event,) = here.publish(job("create"))
        texts = [found.text for found in (here.told("ops", event), here.told("own", event)) if isinstance(found, Mail)]
    assert ["17 h EST" in texts[0], "22 h UTC" in texts[1]] == [True, True]


@pytest.mark.parametrize("zone", ["Mars/Base", "America", "../../etc/passwd", "/etc/localtime", "\0", "x" * 300])
def test_a_time_zone_that_is_none_is_named(here: Site, zone: str) -> None:
    here.put("ops", config={"time_zone": zone})
    (event,) = here.publish(job("create"))
    with pytest.raises(Undeliverable, match="there is no time zone"):
        here.told("ops", event)


def test_a_log_of_a_time_beyond_all_calendars_is_told_all_the_same(here: Site) -> None:
    here.put("ops")
    *_, event = here.publish(
        job("create"),
        job("progress", log={"time": 2**53 - 1, "message": "the end of time"}),
        job("finish"),
    )
    found = here.told("ops", event)
    assert isinstance(found, Mail)
    assert "the end of time" in found.text


def test_a_finish_mail_has_the_logs_of_its_job_and_how_long_it_took(tmp_path: Path) -> None:
    world = World()
    with site(tmp_path, world.clock) as here:
        here.put("ops")
        here.publish(job("create", 1), job("create", 2))
        for number, text in ((1, "step one"), (2, "of another"), (1, "step two")):
            world.now_ms += 30_000
            here.publish(job("progress", number, log={"message": text, "tag": "cp"}, data={"text": f"about {text}"}))
        world.now_ms += 35_000
        (event,) = here.publish(job("finish", 1, message="all is well"))
        here.publish(job("progress", 1, log={"message": "too late"}))
        found = here.told("ops", event)
    assert isinstance(found, Mail)
    for text in (found.text, found.html):
        for expected in (
            "step one",
            "step two",
            "about step two",
            "all is well",
            "2 min 5 s",
            "2023-11-14 22:13:50 UTC",
        ):
            assert expected in text
        assert not re.search("of another|too late", text)


def test_what_the_log_says_is_escaped_in_html(here: Site) -> None:
    here.put("ops", config={"title": "<b>"})
    *_, event = here.publish(
        job("create"),
        job("progress", log={"message": "<script>alert(1)</script>"}),
        job("finish", message="<img src=x onerror=alert(2)>", params={"<i>": "</table>"}),
    )
    found = here.told("ops", event)
    assert isinstance(found, Mail)
    assert not re.search(r"<script>|<img src=x|<i>", found.html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in found.html


def test_a_template_of_the_installation_takes_the_place_of_ours_alone(tmp_path: Path) -> None:
    (tmp_path / "templates" / "mail").mkdir(parents=True)
    (tmp_path / "templates" / "mail" / "create.subject.j2").write_text(
        "{{ job.label }} on {{ node }}: {{ config.team }}"
    )
    with site(tmp_path / "site", TEMPLATES_PATH=str(tmp_path / "templates")) as here:
        here.jobs({"backup": {"label": "Nightly"}})
        here.put("ops", config={"team": "storage"})
        created, finished = here.publish(job("create"), job("finish"))
        subjects = [found.subject for one in (created, finished) if isinstance(found := here.told("ops", one), Mail)]
    assert subjects == ["Nightly on n1: storage", "Job finished"]
