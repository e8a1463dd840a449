"""The built-in templates: every event in every channel, with hostile and large values."""

import json
import re
from html.parser import HTMLParser
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.templates.renderer import PACKAGE, TemplateRenderer
from chalicelib.domain.notifications.delivery import MESSAGE_PARTS, Channel
from chalicelib.services.notifications.messages.alarm_scope import ALARM_KINDS, FAILED_TEMPLATE
from infra.tools import preview
from infra.tools.samples import ALARM_EVENTS, FAILED, OTHER, SAMPLES, scope

TEMPLATES = TemplateRenderer()
HEADINGS = {
    "create": "Job created",
    "redirect": "Job redirected",
    "progress": "Job is running",
    "finish": "Job finished",
    "clean": "Job cleaned",
    "createJobSet": "Job Set created",
    "progressJobSet": "Job Set is running",
    "finishJobSet": "Job Set finished",
    "cleanJobSet": "Job Set cleaned",
}
ALL_PARTS: list[tuple[Channel, str]] = [(channel, part) for channel, parts in MESSAGE_PARTS.items() for part in parts]
EVENTS = [*SAMPLES.items(), ("finish", FAILED), ("weather", OTHER)]
MINIMAL: dict[str, dict[str, Any]] = {
    **{name: {"id": 1, "node": "n", "type": "t", "params": {}, "props": {}} for name in ("create", "finish", "clean")},
    "progress": {"id": 1, "node": "n", "type": "t", "params": {}, "props": {}, "state": "on"},
    "redirect": {"id": 1, "node": "n", "redirect": "m"},
    **{f"{name}JobSet": {"id": 1, "node": "n", "props": {}, "jobs": []} for name in ("create", "finish", "clean")},
    "progressJobSet": {"id": 1, "node": "n", "props": {}, "progress": "1/2"},
    "weather": {"type": ["weather"], "key": None, "timestamp": None, "payload": None},
}
NASTY = [
    '"',
    "\\",
    "\n\r\t\x00\x1b\u2028",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; {{ 7 * 7 }} {% raw %} ${7*7}",
    "<!channel> <@U1> <http://x|y>",
    "grüße 日本語 🚀👩‍🚀",
    "%s %d %(a)s {0}",
    "\\u0022,\\",
]


def render(channel: Channel, name: str, part: str, variables: dict[str, Any]) -> str:
    return TEMPLATES.render(channel, name, part, variables)


def attachment(name: str, fields: dict[str, Any], link: str = "https://a/1") -> dict[str, Any]:
    """The single attachment of the Slack message about an event."""
    post = json.loads(render("slack", name, "json", scope(name, fields, link)))
    assert list(post) == ["attachments"]
    (post_attachment,) = post["attachments"]
    assert isinstance(post_attachment, dict)
    return post_attachment


def with_texts(value: Any, text: str) -> Any:
    """The fields with every string replaced by `text`, including parameter names."""
    if isinstance(value, str):
        return text
    if isinstance(value, list):
        return [with_texts(each, text) for each in value]
    if isinstance(value, dict):
        inner = {name: with_texts(each, text) for name, each in value.items()}
        return inner | {"params": {text: text}} if "params" in value else inner
    return value


class Page(HTMLParser):
    """The text, tags and links of an HTML page. Asserts that tags are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str | None] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_samples_cover_all_events() -> None:
    assert set(SAMPLES) == set(HEADINGS)


def test_every_event_has_all_templates() -> None:
    names = [*HEADINGS, *ALARM_KINDS, FAILED_TEMPLATE, "default", "digest"]
    expected = {f"{channel}/{name}.{part}.j2" for (channel, part), name in product(ALL_PARTS, names)}
    existing = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.j2")}
    assert {name for name in existing if "/_" not in name} == expected


@pytest.mark.parametrize(("name", "heading"), HEADINGS.items())
def test_mail_heading_names_the_event(name: str, heading: str) -> None:
    html = render("mail", name, "html", scope(name, SAMPLES[name]))
    assert re.findall("<h1[^>]*>(.*?)</h1>", html) == [heading]


TRACEBACK = 'Traceback (most recent call last):\n  File "b.py", line 1, in <module>\nValueError: no such disk\n'
JOB = "deploy on build-7.example.org (#4711)"
SET = "job set on scheduler-1 (#815)"
SUBJECTS = [
    ("create", SAMPLES["create"], f"Created {JOB}"),
    ("redirect", SAMPLES["redirect"], "Redirected job on build-7 (#4711): to build-9"),
    ("progress", SAMPLES["progress"], f"Running {JOB}: 7/12"),
    ("finish", SAMPLES["finish"], f"Succeeded {JOB}: release/2026.11 is live on all 12 hosts"),
    ("finish", FAILED, f"FAILED {JOB}: Health checks failed on edge-2 & edge-5:"),
    (
        "finish",
        FAILED | {"message": "\n\n <b>&</b> \x1b[31m\u202egnp.exe\n more"},
        f"FAILED {JOB}: <b>&</b> [31m gnp.exe",
    ),
    ("finish", FAILED | {"message": TRACEBACK}, f"FAILED {JOB}: ValueError: no such disk"),
    ("finish", FAILED | {"message": "x" * 500}, f"FAILED {JOB}: {'x' * 149}…"),
    ("clean", SAMPLES["clean"], f"TIMED OUT {JOB}"),
    ("createJobSet", SAMPLES["createJobSet"], f"Created {SET}"),
    ("progressJobSet", SAMPLES["progressJobSet"], f"Running {SET}: 1/3"),
    ("finishJobSet", SAMPLES["finishJobSet"], f"FAILED {SET}: 1 of 3 jobs failed"),
    ("finishJobSet", SAMPLES["finishJobSet"] | {"jobs": []}, f"Succeeded {SET}"),
    ("cleanJobSet", SAMPLES["cleanJobSet"], f"TIMED OUT {SET}"),
]


@pytest.mark.parametrize(("name", "fields", "subject"), SUBJECTS)
def test_subject_names_result_job_node_and_number(name: str, fields: dict[str, Any], subject: str) -> None:
    variables = scope(name, fields)
    assert {render(channel, name, "subject", variables) for channel in ("mail", "app")} == {subject}
    fallback = json.loads(render("slack", name, "json", variables))["attachments"][0]["fallback"]
    assert " ".join(fallback.split()) == _escaped(subject)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
@pytest.mark.parametrize("name", MINIMAL)
def test_minimal_event_is_rendered(channel: Channel, part: str, name: str) -> None:
    text = render(channel, name, part, {"event": name if name in HEADINGS else {}, **MINIMAL[name], "link": ""})
    assert text.strip()
    assert "None" not in text
    assert 'href=""' not in text


@pytest.mark.parametrize(("channel", "part"), [("mail", "text"), ("mail", "html"), ("app", "body"), ("slack", "json")])
@pytest.mark.parametrize(("name", "fields"), EVENTS)
def test_rendered_event_contains_its_fields(channel: Channel, part: str, name: str, fields: dict[str, Any]) -> None:
    text = render(channel, name, part, scope(name, fields, "https://annals/x"))
    visible = Page(text).text if part == "html" else text
    expected = [value for key, value in fields.items() if key in ("id", "node", "redirect", "state", "progress", "key")]
    if channel == "app":
        expected = [fields.get("id", fields.get("key"))]
    if channel == "slack":
        expected = [value for value in expected if isinstance(value, str)]
    expected += [*fields.get("params", {}).values()]
    expected += [job["message"] for job in fields.get("jobs", []) if "message" in job]
    assert [value for value in expected if str(value) not in visible] == []
    assert "https://annals/x" in text


@pytest.mark.parametrize("part", ["text", "html"])
def test_finish_mail_contains_log_output_and_duration(part: str) -> None:
    text = render("mail", "finish", part, scope("finish", FAILED | {"data": {"text": "exit code 3"}}))
    visible = Page(text).text if part == "html" else text
    expected = ["Health checks failed on edge-2 & edge-5:", "<timeout> after 60 s", "3 min 9 s", "exit code 3"]
    expected += [entry["message"] for entry in FAILED["log"]] + ["rows: 1,204,551"]
    assert [value for value in expected if value not in visible] == []
    assert "failed" in visible.lower()


def test_finished_job_set_lists_failed_jobs() -> None:
    text = render("mail", "finishJobSet", "text", scope("finishJobSet", SAMPLES["finishJobSet"]))
    assert re.findall(r"^  (ok|FAILED) (\w+ #\d+)", text, re.MULTILINE) == [
        ("ok", "build #4710"),
        ("ok", "build #4711"),
        ("FAILED", "deploy #4712"),
    ]
    html = Page(render("mail", "finishJobSet", "html", scope("finishJobSet", SAMPLES["finishJobSet"]))).text
    assert (html.count("✓"), html.count("✗"), "1 failed" in html) == (2, 1, True)


@pytest.mark.parametrize(
    ("name", "fields", "colour"),
    [
        ("finish", {"success": "1"}, "#15803d"),
        ("finish", {"success": "0"}, "#b91c1c"),
        ("finishJobSet", {"jobs": [{"success": "1"}, {"success": "1"}]}, "#15803d"),
        ("finishJobSet", {"jobs": [{"success": "1"}, {"success": "0"}]}, "#b91c1c"),
        ("clean", {}, "#b45309"),
        ("create", {}, "#1d4ed8"),
    ],
)
def test_color_shows_result(name: str, fields: dict[str, Any], colour: str) -> None:
    assert attachment(name, SAMPLES[name] | fields)["color"] == colour
    assert colour in render("mail", name, "html", scope(name, SAMPLES[name] | fields))


@pytest.mark.parametrize(
    ("props", "author"),
    [
        ({"author": "anna"}, "anna"),
        ({"author": "anna", "creator": "slack"}, "anna"),
        ({"author": "anna", "creator": "web"}, "anna (web)"),
        ({"author": "anna", "creator": ""}, "anna"),
        ({"creator": "web"}, None),
        ({}, None),
    ],
)
def test_slack_author_includes_creator_other_than_slack(props: dict[str, str], author: str | None) -> None:
    assert attachment("create", SAMPLES["create"] | {"props": props}).get("author_name") == author


def test_slack_message_is_one_attachment() -> None:
    assert attachment("progress", SAMPLES["progress"] | {"params": {"a": "x" * 50}}) == {
        "fallback": "Running deploy on build-7.example.org (#4711): 7/12",
        "color": "#1d4ed8",
        "author_name": "anna.kowalski",
        "title": "Running deploy on build-7.example.org (#4711)",
        "title_link": "https://a/1",
        "text": "2,184 tests passed, 0 failed, 3 skipped\nhost edge-7: draining",
        "ts": 1794805200,
        "fields": [
            {"title": "Node", "value": "build-7.example.org", "short": True},
            {"title": "Part of Job Set", "value": "815", "short": True},
            {"title": "State", "value": "deploying", "short": True},
            {"title": "Progress", "value": "7/12", "short": True},
            {"title": "a", "value": "x" * 50, "short": False},
        ],
    }


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize(("name", "fields"), EVENTS)
def test_slack_json_escapes_hostile_values(name: str, fields: dict[str, Any], text: str) -> None:
    post_attachment = attachment(name, with_texts(fields, text), link=text)
    assert post_attachment["title_link"] == text
    visible = json.dumps(
        {key: value for key, value in post_attachment.items() if key != "title_link"}, ensure_ascii=False
    )
    assert re.search("[<>]", visible) is None
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert (
        not fields.get("params")
        or {"title": shown, "value": shown, "short": len(text) < 40} in post_attachment["fields"]
    )


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=50))
def test_slack_json_is_valid_for_any_text(text: str) -> None:
    text = text.encode(errors="ignore").decode()
    post_attachment = attachment("finish", with_texts(FAILED, text), link="https://a/1")
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert post_attachment.get("title") == f"FAILED {shown} on {shown} (#4711)"


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize(("name", "fields"), EVENTS)
def test_html_escapes_hostile_values_and_is_well_formed(name: str, fields: dict[str, Any], text: str) -> None:
    page = Page(render("mail", name, "html", scope(name, with_texts(fields, text), link=text)))
    usual = {"html", "head", "meta", "title", "body", "div", "table", "tr", "td", "span", "h1", "p", "a", "b", "br"}
    assert page.tags <= usual
    assert page.open == []
    assert page.links == [text]


@pytest.mark.parametrize("text", ["<" * 60_000, "&" * 60_000, "🚀" * 15_000, "a\n" * 30_000, '"' * 60_000, "\\" * 9])
@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
def test_large_event_is_rendered_within_limits(channel: Channel, part: str, text: str) -> None:
    """Long contents are truncated, and a mail says so. No event is larger than 350 KB."""
    entry = {"time": "now", "message": text[:2000], "level": 1, "tag": "t", "data": {"text": text[:2000]}}
    many = {f"{number}{text[:500]}": text[:500] for number in range(200)}
    job = FAILED | {"params": many, "message": text, "data": {"text": text}, "log": [entry] * 1000}
    jobs = [{"type": text[:999], "node": text[:999], "id": 1, "success": "0", "message": text[:999]}] * 110
    messages = [render(channel, "finish", part, scope("finish", job))]
    messages.append(
        render(channel, "finishJobSet", part, scope("finishJobSet", SAMPLES["finishJobSet"] | {"jobs": jobs}))
    )
    messages.append(render(channel, "other", part, scope("other", OTHER | {"payload": many, "key": text})))
    assert all(0 < len(message) < 256 * 1024 for message in messages)
    if part in ("text", "html"):
        assert "of 1000 entries" in messages[0]
        assert "… and 160 more" in messages[0]
        assert "… and 10 more" in messages[1]


@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
def test_event_with_many_small_values_is_rendered(channel: Channel, part: str) -> None:
    small = {str(number): "" for number in range(35_000)}
    assert render(channel, "create", part, scope("create", SAMPLES["create"] | {"params": small, "props": small}))
    assert render(channel, "other", part, scope("other", OTHER | {"payload": small}))
    jobs = [{"id": number} for number in range(25_000)]
    assert render(channel, "createJobSet", part, scope("createJobSet", SAMPLES["createJobSet"] | {"jobs": jobs}))
    assert render(channel, "finishJobSet", part, scope("finishJobSet", SAMPLES["finishJobSet"] | {"jobs": jobs}))


def test_long_job_list_is_truncated() -> None:
    jobs = [{"type": "t", "node": "n", "id": number, "success": "1", "message": "m"} for number in range(1000)]
    fields = SAMPLES["finishJobSet"] | {"jobs": jobs}
    assert "… and 900 more" in render("mail", "finishJobSet", "html", scope("finishJobSet", fields))
    assert "… and 900 more" in render("mail", "finishJobSet", "text", scope("finishJobSet", fields))
    assert "… and 970 more" in render("app", "finishJobSet", "body", scope("finishJobSet", fields))
    assert "… and 970 more" in attachment("finishJobSet", fields)["text"]


@pytest.mark.parametrize("name", HEADINGS)
def test_html_mail_uses_only_widely_supported_html(name: str) -> None:
    html = render("mail", name, "html", scope(name, SAMPLES[name]))
    assert "max-width:600px" in html
    assert "mso-hide:all" in html, "the preview text in the list of mails"
    assert re.findall(r"<(?:style|script|link|img|form|iframe)\b|class=|url\(|display:(?:flex|grid)", html) == []
    assert len(html) < 20_000, "some mail programs truncate mails of more than 100 KB"


@pytest.mark.parametrize("payload", [None, 7, "text", [1, "two"], {"a": {"b": None}}, True, 1.5])
@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
def test_core_event_shows_type_key_and_payload(channel: Channel, part: str, payload: object) -> None:
    text = render(channel, "weather", part, scope("weather", OTHER | {"payload": payload}))
    assert "weather/station/reading" in text
    assert "station/17" in text


@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
@pytest.mark.parametrize("own", [{"TYPE": "OrderStarted", "key": "/o"}, {"type": "start", "job": "j1"}])
def test_event_of_another_vocabulary_is_rendered(channel: Channel, part: str, own: dict[str, Any]) -> None:
    text = render(channel, "default", part, {**own, "event": own, "link": ""})
    assert "Event" in text or "start" in text
    assert part == "subject" or all(value in text for value in own.values())


def test_preview_page_shows_every_message() -> None:
    page = preview.page(TEMPLATES)
    assert page.count("<iframe") == len(SAMPLES) + len(ALARM_EVENTS) + 3
    assert [title for title in HEADINGS.values() if title not in page] == []
    assert page.count(f"FAILED {JOB}") >= 3
    assert re.findall(r"<(?:script|link|img)\b", page) == []
