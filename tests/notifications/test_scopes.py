"""The variables of templates, and the contents of mails: settings, times, logs, links."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import AppMessage, Mail, SlackPost
from chalicelib.wiring.exports import report_publisher
from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import job
from tests.notifications.sites import Site, open_site
from tests.services.fakes import NOW_MS, World

NOW_S = NOW_MS // 1000
NAMES = (
    "event time node id type jobset params props state progress log data redirect success message jobs link config job"
)
VARIABLES_JSON = ", ".join(
    f'"{name}": {{{{ ({name} if {name} is defined else none)|tojson }}}}' for name in NAMES.split()
)
PARTS = {"mail": ("text", "html", "subject"), "slack": ("json",), "app": ("subject", "body")}
JSON_PARTS = {"text", "json", "body"}


@pytest.fixture(name="bare")
def a_bare_site(tmp_path: Path) -> Iterator[Site]:
    """A site whose templates print all their variables as JSON."""
    templates = tmp_path / "templates"
    for channel, parts in PARTS.items():
        (templates / channel).mkdir(parents=True)
        for part in parts:
            text = f"{{{VARIABLES_JSON}}}" if part in JSON_PARTS else "{{ event }}"
            for name in ("create", "progress", "redirect", "finish", "createJobSet"):
                (templates / channel / f"{name}.{part}.j2").write_text(text)
    with open_site(tmp_path / "site", TEMPLATES_PATH=str(templates), PUBLIC_URL="https://annals.example/") as site:
        site.configure_jobs({"backup": {"label": "Nightly"}})
        yield site


def template_variables(site: Site, name: str, event: Event) -> Json:
    """The variables that the template has, without null values."""
    message = site.build_message(name, event)
    match message:
        case Mail(text=text) | SlackPost(json=text) | AppMessage(body=text):
            return {key: value for key, value in json.loads(text).items() if value is not None}
    raise AssertionError(message)


CHANNELS = pytest.mark.parametrize("channel", ["mail", "slack", "app"])


@CHANNELS
def test_scope_of_global_observer_has_event_config_and_job(bare: Site, channel: str) -> None:
    configured = bare.put("ops", channel, config={"colour": "red"}).configuration.config
    (event,) = bare.publish(job("create", 5, jobset=7, params={"path": "/srv"}, props={"author": "anna"}))
    time = "2023-11-14 22:13:20 UTC" if channel == "mail" else NOW_S
    assert template_variables(bare, "ops", event) == {
        "event": "create",
        "time": time,
        "node": "n1",
        "id": 5,
        "jobset": 7,
        "type": "backup",
        "params": {"path": "/srv"},
        "props": {"author": "anna"},
        "link": "https://annals.example/#/objects/job/5?org=here",
        "config": {key: value for key, value in configured.items() if key != "url"},
        "job": {"label": "Nightly"},
    }


@CHANNELS
def test_scope_of_private_observer_has_job_but_no_config(bare: Site, channel: str) -> None:
    bare.put("mine", channel, scope="private", user="anna", config={"colour": "red"})
    (event,) = bare.publish(job("create", props={"author": "anna"}))
    variables = template_variables(bare, "mine", event)
    assert ("config" in variables, variables["job"]) == (False, {"label": "Nightly"})


def test_scope_does_not_contain_webhook_url(bare: Site) -> None:
    bare.put("chat", "slack", config={"url": "https://hooks.slack.com/services/SECRET"})
    (event,) = bare.publish(job("create"))
    assert "SECRET" not in str(template_variables(bare, "chat", event))


def test_scope_of_job_set_has_link_and_no_job(bare: Site) -> None:
    bare.put("ops")
    (event,) = bare.publish(job("createJobSet", 7))
    variables = template_variables(bare, "ops", event)
    assert (variables["link"], "job" in variables) == ("https://annals.example/#/objects/jobset/7?org=here", False)


def test_scope_of_unconfigured_job_type_has_empty_job(bare: Site) -> None:
    bare.put("ops")
    (event,) = bare.publish(job("create", type="unheard-of"))
    assert template_variables(bare, "ops", event)["job"] == {}


def test_mail_without_public_url_has_no_link(site: Site) -> None:
    site.put("ops")
    (event,) = site.publish(job("create"))
    message = site.build_message("ops", event)
    assert isinstance(message, Mail)
    assert "http" not in message.text


def test_report_ready_mail_contains_link(site: Site) -> None:
    site.put("analysts", types=["report/ready/*"])
    report_publisher(site.components).publish_ready(
        "report", lambda _: {"link": "https://reports.example.org/report-1.html"}
    )
    site.observe()
    site.deliver()
    (mail,) = site.channels.sent
    assert isinstance(mail, Mail)
    assert "report/ready/report" in mail.subject
    assert "https://reports.example.org/report-1.html" in mail.text
    assert 'href="https://reports.example.org/report-1.html"' in (mail.html or "")


TIMES = {
    "by default": ({}, "2023-11-14 22:13:20 UTC"),
    "in a zone": ({"time_zone": "Europe/Berlin"}, "2023-11-14 23:13:20 CET"),
    "in a format": ({"time_format": "%d.%m.%Y %H:%M"}, "14.11.2023 22:13"),
    "in both": ({"time_zone": "Asia/Kolkata", "time_format": "%H:%M %z"}, "03:43 +0530"),
}


@pytest.mark.parametrize("name", TIMES)
def test_mail_times_use_configured_zone_and_format(bare: Site, name: str) -> None:
    config, expected = TIMES[name]
    bare.put("ops", config={**config, "mail_progress": "1"})
    *_, event = bare.publish(job("create"), job("progress", log={"message": "hi"}))
    variables = template_variables(bare, "ops", event)
    assert (variables["time"], variables["log"]["time"]) == (expected, expected)


def test_mail_times_default_to_installation_settings(tmp_path: Path) -> None:
    with open_site(tmp_path, TIME_ZONE="America/New_York", TIME_FORMAT="%H h %Z") as site:
        site.put("ops")
        site.put("own", config={"time_zone": "UTC"})
        (event,) = site.publish(job("create"))
        texts = [
            message.text
            for message in (site.build_message("ops", event), site.build_message("own", event))
            if isinstance(message, Mail)
        ]
    assert ["17 h EST" in texts[0], "22 h UTC" in texts[1]] == [True, True]


@pytest.mark.parametrize("zone", ["Mars/Base", "America", "../../etc/passwd", "/etc/localtime", "\0", "x" * 300])
def test_unknown_time_zone_is_undeliverable(site: Site, zone: str) -> None:
    site.put("ops", config={"time_zone": zone})
    (event,) = site.publish(job("create"))
    with pytest.raises(Undeliverable, match="unknown time zone"):
        site.build_message("ops", event)


def test_log_time_out_of_range_is_not_formatted(site: Site) -> None:
    site.put("ops")
    *_, event = site.publish(
        job("create"),
        job("progress", log={"time": 2**53 - 1, "message": "the end of time"}),
        job("finish"),
    )
    message = site.build_message("ops", event)
    assert isinstance(message, Mail)
    assert "the end of time" in message.text


def test_finish_mail_contains_job_log_and_duration(tmp_path: Path) -> None:
    world = World()
    with open_site(tmp_path, world.clock) as site:
        site.put("ops")
        site.publish(job("create", 1), job("create", 2))
        for number, text in ((1, "step one"), (2, "of another"), (1, "step two")):
            world.now_ms += 30_000
            site.publish(job("progress", number, log={"message": text, "tag": "cp"}, data={"text": f"about {text}"}))
        world.now_ms += 35_000
        (event,) = site.publish(job("finish", 1, message="all is well"))
        site.publish(job("progress", 1, log={"message": "too late"}))
        message = site.build_message("ops", event)
    assert isinstance(message, Mail)
    for text in (message.text, message.html):
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


def test_finish_mail_of_new_run_contains_only_its_log(tmp_path: Path) -> None:
    world = World()
    with open_site(tmp_path, world.clock) as site:
        site.put("ops")
        site.publish(job("create"), job("progress", log={"message": "first run"}), job("finish"))
        world.now_ms += 3_600_000
        site.publish(job("create"), job("progress", log={"message": "second run"}))
        world.now_ms += 5_000
        (event,) = site.publish(job("finish"))
        message = site.build_message("ops", event)
    assert isinstance(message, Mail)
    assert "second run" in message.text
    assert "5 s" in message.text
    assert not re.search("first run|1 h", message.text)


def test_log_messages_are_escaped_in_html(site: Site) -> None:
    site.put("ops", config={"title": "<b>"})
    *_, event = site.publish(
        job("create"),
        job("progress", log={"message": "<script>alert(1)</script>"}),
        job("finish", message="<img src=x onerror=alert(2)>", params={"<i>": "</table>"}),
    )
    message = site.build_message("ops", event)
    assert isinstance(message, Mail)
    assert not re.search(r"<script>|<img src=x|<i>", message.html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in message.html


def test_template_override_replaces_only_that_template(tmp_path: Path) -> None:
    (tmp_path / "templates" / "mail").mkdir(parents=True)
    (tmp_path / "templates" / "mail" / "create.subject.j2").write_text(
        "{{ job.label }} on {{ node }}: {{ config.team }}"
    )
    with open_site(tmp_path / "site", TEMPLATES_PATH=str(tmp_path / "templates")) as site:
        site.configure_jobs({"backup": {"label": "Nightly"}})
        site.put("ops", config={"team": "storage"})
        created, finished = site.publish(job("create"), job("finish"))
        subjects = [
            message.subject
            for one in (created, finished)
            if isinstance(message := site.build_message("ops", one), Mail)
        ]
    assert subjects == ["Nightly on n1: storage", "Succeeded backup on n1 (#1): done"]
