"""The templates of the package: every event in every channel, whatever its fields hold."""

import json
import re
from html.parser import HTMLParser
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.templates.renderer import PACKAGE, Templates
from chalicelib.domain.notifications.delivery import PARTS, Channel
from infra.tools import preview
from infra.tools.samples import FAILED, OTHER, SAMPLES, scope

TEMPLATES = Templates()
SUBJECTS = {
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
ALL_PARTS: list[tuple[Channel, str]] = [(channel, part) for channel, parts in PARTS.items() for part in parts]
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


def rendered(channel: Channel, name: str, part: str, given_scope: dict[str, Any]) -> str:
    return TEMPLATES.render(channel, name, part, given_scope)


def attachment(name: str, fields: dict[str, Any], link: str = "https://a/1") -> dict[str, Any]:
    """The only one of the Slack message about an event."""
    post = json.loads(rendered("slack", name, "json", scope(name, fields, link)))
    assert list(post) == ["attachments"]
    (found,) = post["attachments"]
    assert isinstance(found, dict)
    return found


def with_texts(value: Any, text: str) -> Any:
    """The same fields, with another text in all places where there is one, names of parameters included."""
    if isinstance(value, str):
        return text
    if isinstance(value, list):
        return [with_texts(each, text) for each in value]
    if isinstance(value, dict):
        inner = {name: with_texts(each, text) for name, each in value.items()}
        return inner | {"params": {text: text}} if "params" in value else inner
    return value


class Page(HTMLParser):
    """What a mail program reads: the text, and the tags that were opened and closed."""

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


def test_the_samples_are_all_events_of_the_vocabulary() -> None:
    assert set(SAMPLES) == set(SUBJECTS)


def test_every_event_has_a_template_for_every_part_of_every_channel() -> None:
    wanted = {f"{channel}/{name}.{part}.j2" for (channel, part), name in product(ALL_PARTS, [*SUBJECTS, "default"])}
    found = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.j2")}
    assert {name for name in found if "/_" not in name} == wanted


@pytest.mark.parametrize(("name", "subject"), SUBJECTS.items())
def test_the_subject_says_what_happened(name: str, subject: str) -> None:
    told = {rendered(channel, name, "subject", scope(name, SAMPLES[name])) for channel in ("mail", "app")}
    assert told == {subject}


@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
@pytest.mark.parametrize("name", MINIMAL)
def test_the_least_that_an_event_can_tell_is_enough(channel: Channel, part: str, name: str) -> None:
    text = rendered(channel, name, part, {"event": name if name in SUBJECTS else {}, **MINIMAL[name], "link": ""})
    assert text.strip()
    assert "None" not in text
    assert 'href=""' not in text


@pytest.mark.parametrize(("channel", "part"), [("mail", "text"), ("mail", "html"), ("app", "body"), ("slack", "json")])
@pytest.mark.parametrize(("name", "fields"), EVENTS)
def test_all_that_an_event_tells_is_told(channel: Channel, part: str, name: str, fields: dict[str, Any]) -> None:
    text = rendered(channel, name, part, scope(name, fields, "https://annals/x"))
    told = Page(text).text if part == "html" else text
    wanted = [value for key, value in fields.items() if key in ("id", "node", "redirect", "state", "progress", "key")]
    if channel == "app":
        wanted = [fields.get("id", fields.get("key"))]
    if channel == "slack":
        wanted = [value for value in wanted if isinstance(value, str)]
    wanted += [*fields.get("params", {}).values()]
    wanted += [job["message"] for job in fields.get("jobs", []) if "message" in job]
    assert [value for value in wanted if str(value) not in told] == []
    assert "https://annals/x" in text


@pytest.mark.parametrize("part", ["text", "html"])
def test_a_finished_job_has_its_log_message_output_and_duration_in_the_mail(part: str) -> None:
    text = rendered("mail", "finish", part, scope("finish", FAILED | {"data": {"text": "exit code 3"}}))
    told = Page(text).text if part == "html" else text
    wanted = ["Health checks failed on edge-2 & edge-5:", "<timeout> after 60 s", "3 min 9 s", "exit code 3"]
    wanted += [entry["message"] for entry in FAILED["log"]] + ["rows: 1,204,551"]
    assert [one for one in wanted if one not in told] == []
    assert "failed" in told.lower()


def test_a_job_set_tells_which_of_its_jobs_failed() -> None:
    text = rendered("mail", "finishJobSet", "text", scope("finishJobSet", SAMPLES["finishJobSet"]))
    assert re.findall(r"^  (ok|FAILED) (\w+ #\d+)", text, re.MULTILINE) == [
        ("ok", "build #4710"),
        ("ok", "build #4711"),
        ("FAILED", "deploy #4712"),
    ]
    html = Page(rendered("mail", "finishJobSet", "html", scope("finishJobSet", SAMPLES["finishJobSet"]))).text
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
def test_the_colour_says_how_it_went(name: str, fields: dict[str, Any], colour: str) -> None:
    assert attachment(name, SAMPLES[name] | fields)["color"] == colour
    assert colour in rendered("mail", name, "html", scope(name, SAMPLES[name] | fields))


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
def test_slack_names_the_author_and_the_creator_unless_that_is_slack(props: dict[str, str], author: str | None) -> None:
    assert attachment("create", SAMPLES["create"] | {"props": props}).get("author_name") == author


def test_a_slack_message_is_an_attachment_with_title_link_fields_and_time() -> None:
    assert attachment("progress", SAMPLES["progress"] | {"params": {"a": "x" * 50}}) == {
        "fallback": "Job is running: deploy #4711",
        "color": "#1d4ed8",
        "author_name": "anna.kowalski",
        "title": "Job is running: deploy #4711",
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
def test_slack_gets_json_whatever_the_values_hold(name: str, fields: dict[str, Any], text: str) -> None:
    found = attachment(name, with_texts(fields, text), link=text)
    assert found["title_link"] == text
    told = json.dumps({key: value for key, value in found.items() if key != "title_link"}, ensure_ascii=False)
    assert re.search("[<>]", told) is None
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert not fields.get("params") or {"title": shown, "value": shown, "short": len(text) < 40} in found["fields"]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=50))
def test_slack_gets_json_whatever_text_there_is(text: str) -> None:
    text = text.encode(errors="ignore").decode()
    found = attachment("finish", with_texts(FAILED, text), link="https://a/1")
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert found.get("title") == f"Job finished: {shown} #4711"


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize(("name", "fields"), EVENTS)
def test_html_is_escaped_and_well_formed_whatever_the_values_hold(name: str, fields: dict[str, Any], text: str) -> None:
    page = Page(rendered("mail", name, "html", scope(name, with_texts(fields, text), link=text)))
    usual = {"html", "head", "meta", "title", "body", "div", "table", "tr", "td", "span", "h1", "p", "a", "b", "br"}
    assert page.tags <= usual
    assert page.open == []
    assert page.links == [text]


@pytest.mark.parametrize("text", ["<" * 60_000, "&" * 60_000, "🚀" * 15_000, "a\n" * 30_000, '"' * 60_000, "\\" * 9])
@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
def test_an_event_is_told_however_much_is_in_it(channel: Channel, part: str, text: str) -> None:
    """What is too much for a message is left out, and a mail says so. No event is larger than 350 KB."""
    entry = {"time": "now", "message": text[:2000], "level": 1, "tag": "t", "data": {"text": text[:2000]}}
    many = {f"{number}{text[:500]}": text[:500] for number in range(200)}
    job = FAILED | {"params": many, "message": text, "data": {"text": text}, "log": [entry] * 1000}
    jobs = [{"type": text[:999], "node": text[:999], "id": 1, "success": "0", "message": text[:999]}] * 110
    told = [rendered(channel, "finish", part, scope("finish", job))]
    told.append(
        rendered(channel, "finishJobSet", part, scope("finishJobSet", SAMPLES["finishJobSet"] | {"jobs": jobs}))
    )
    told.append(rendered(channel, "other", part, scope("other", OTHER | {"payload": many, "key": text})))
    assert all(0 < len(one) < 256 * 1024 for one in told)
    if part in ("text", "html"):
        assert "of 1000 entries" in told[0]
        assert "… and 160 more" in told[0]
        assert "… and 10 more" in told[1]


@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
def test_an_event_of_very_many_small_things_is_told(channel: Channel, part: str) -> None:
    small = {str(number): "" for number in range(35_000)}
    assert rendered(channel, "create", part, scope("create", SAMPLES["create"] | {"params": small, "props": small}))
    assert rendered(channel, "other", part, scope("other", OTHER | {"payload": small}))
    jobs = [{"id": number} for number in range(25_000)]
    assert rendered(channel, "createJobSet", part, scope("createJobSet", SAMPLES["createJobSet"] | {"jobs": jobs}))
    assert rendered(channel, "finishJobSet", part, scope("finishJobSet", SAMPLES["finishJobSet"] | {"jobs": jobs}))


def test_many_jobs_are_told_in_part() -> None:
    jobs = [{"type": "t", "node": "n", "id": number, "success": "1", "message": "m"} for number in range(1000)]
    fields = SAMPLES["finishJobSet"] | {"jobs": jobs}
    assert "… and 900 more" in rendered("mail", "finishJobSet", "html", scope("finishJobSet", fields))
    assert "… and 900 more" in rendered("mail", "finishJobSet", "text", scope("finishJobSet", fields))
    assert "… and 970 more" in rendered("app", "finishJobSet", "body", scope("finishJobSet", fields))
    assert "… and 970 more" in attachment("finishJobSet", fields)["text"]


@pytest.mark.parametrize("name", SUBJECTS)
def test_html_mails_are_made_for_mail_programs(name: str) -> None:
    html = rendered("mail", name, "html", scope(name, SAMPLES[name]))
    assert "max-width:600px" in html
    assert "mso-hide:all" in html, "the preview text of a mailbox's list"
    assert re.findall(r"<(?:style|script|link|img|form|iframe)\b|class=|url\(|display:(?:flex|grid)", html) == []
    assert len(html) < 20_000, "some mail programs cut off what is longer than 100 KB"


@pytest.mark.parametrize("payload", [None, 7, "text", [1, "two"], {"a": {"b": None}}, True, 1.5])
@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
def test_any_other_event_is_told_by_its_type_key_and_payload(channel: Channel, part: str, payload: object) -> None:
    text = rendered(channel, "weather", part, scope("weather", OTHER | {"payload": payload}))
    assert "weather/station/reading" in text
    assert "station/17" in text


@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
@pytest.mark.parametrize("own", [{"TYPE": "OrderStarted", "key": "/o"}, {"type": "start", "job": "j1"}])
def test_an_event_in_words_of_its_own_is_told_all_the_same(channel: Channel, part: str, own: dict[str, Any]) -> None:
    text = rendered(channel, "default", part, {**own, "event": own, "link": ""})
    assert "Event" in text or "start" in text
    assert part == "subject" or all(value in text for value in own.values())


def test_the_preview_shows_every_message_on_one_page() -> None:
    page = preview.page(TEMPLATES)
    assert page.count("<iframe") == len(SAMPLES) + 2
    assert [title for title in SUBJECTS.values() if page.count(title) < 4] == []
    assert re.findall(r"<(?:script|link|img)\b", page) == []
