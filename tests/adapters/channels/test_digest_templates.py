"""The templates of messages that report several events."""

import json
from typing import Any

import pytest

from chalicelib.adapters.templates.renderer import TemplateRenderer
from infra.tools import preview
from infra.tools.samples import DIGEST, scope
from tests.adapters.channels.test_templates import ALL_PARTS, NASTY, Page

TEMPLATES = TemplateRenderer()
TITLE = "FAILED deploy on edge-11 (#4711): no answer on port 443 in 60 s (and 999 more)"


def render(channel: str, part: str, **more: Any) -> str:
    return TEMPLATES.render(channel, "digest", part, scope("digest", {**DIGEST, **more}))


@pytest.mark.parametrize("channel", ["mail", "app"])
def test_digest_subject_has_first_event_and_count(channel: str) -> None:
    assert render(channel, "subject") == TITLE


@pytest.mark.parametrize(("channel", "part"), [("mail", "text"), ("mail", "html"), ("app", "body"), ("slack", "json")])
def test_digest_shows_samples_and_count(channel: str, part: str) -> None:
    text = render(channel, part)
    assert [text.count(f"(#47{number})") >= 1 for number in range(11, 16)] == [True] * 5
    assert "995 more" in text
    assert "1000" in text


def test_digest_for_slack_is_red_with_failures() -> None:
    (red,) = json.loads(render("slack", "json"))["attachments"]
    (blue,) = json.loads(render("slack", "json", has_failures=False))["attachments"]
    assert (red["title"], red["color"], blue["color"]) == (TITLE, "#b91c1c", "#1d4ed8")
    assert red["fields"] == [{"title": "Events", "value": "1000", "short": True}]
    assert red["ts"] == DIGEST["until"]


def test_digest_page_is_balanced_and_links_first_event() -> None:
    page = Page(render("mail", "html"))
    assert (page.open, page.links) == ([], ["https://annals.example.org/jobs/4711"])


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize(("channel", "part"), ALL_PARTS)
def test_digest_escapes_hostile_headlines(channel: str, part: str, text: str) -> None:
    samples = [{"subject": text, "link": "", "time": 1}] * 5
    rendered = render(channel, part, samples=samples)
    if part == "html":
        assert Page(rendered).tags.isdisjoint({"script", "img"})
    if part == "json":
        (post,) = json.loads(rendered)["attachments"]
        assert "<!channel>" not in post["title"] + post["text"]


def test_preview_shows_digest() -> None:
    assert "999 more" in preview.page(TEMPLATES)
