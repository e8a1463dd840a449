"""Accessibility: axe-core finds no serious violation in any view, in both themes and at all widths."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.console.browsing import DESKTOP, PHONE, Console, publish
from tests.serving import Member

SERIOUS = {"serious", "critical"}
FITS = """() => {
    const main = document.getElementById('main');
    return [document.documentElement.scrollWidth, main.scrollWidth <= main.clientWidth + 1];
}"""
PLACES = {
    "live": "#/live",
    "jobs": "#/objects/job",
    "orders": "#/objects/order",
    "push jobs": "#/objects/pushJob",
    "observers": "#/observers",
    "a new observer": "#/observers?new=yes",
    "reports": "#/reports",
    "system": "#/system",
    "api": "#/api/events",
}


@pytest.mark.parametrize("place", PLACES)
def test_view_has_no_serious_violation_in_either_theme(console: Console, demo: Member, axe: str, place: str) -> None:
    console.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page = console.open(demo, PLACES[place])
    page.locator("main h1").wait_for()
    page.locator(".waiting").first.wait_for(state="detached")
    assert _problems(page, axe) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert _problems(page, axe) == []


@pytest.mark.parametrize("collection", ["job", "jobset", "pushJob"])
def test_object_page_has_no_serious_violation(console: Console, demo: Member, axe: str, collection: str) -> None:
    first = demo.get(f"/objects/{collection}?brief=yes&limit=1").json()["elements"][0]
    page = console.open(demo, f"#/objects/{collection}{first['path']}")
    page.locator(".timeline rect.span").first.wait_for()
    assert _problems(page, axe) == []


def test_event_panel_has_no_serious_violation(console: Console, demo: Member, axe: str) -> None:
    page = console.open(demo)
    page.locator(".rows-view .rows-row").first.click()
    page.locator(".neighbours li").nth(2).wait_for()
    assert _problems(page, axe) == []


def test_sign_in_and_empty_pages_have_no_serious_violation(console: Console, member: Member, axe: str) -> None:
    console.page.goto(member.server.url)
    console.page.get_by_label("Token", exact=True).wait_for()
    assert _problems(console.page, axe) == []
    page = console.open(member)
    page.get_by_role("heading", name="No events yet").wait_for()
    assert _problems(page, axe) == []


@pytest.mark.parametrize("place", ["#/live", "#/objects/job", "#/observers?new=yes", "#/system", "#/api/events"])
def test_no_overflow_at_any_width(console: Console, demo: Member, place: str) -> None:
    page = console.open(demo, place)
    page.locator("main h1").wait_for()
    page.locator(".waiting").first.wait_for(state="detached")
    for width in (360, 390, 768, 1024, 1280, 1920):
        height = PHONE["height"] if width < 800 else DESKTOP["height"]
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        assert page.evaluate(FITS) == [width, True], width


def test_feed_states_are_announced(console: Console, member: Member) -> None:
    publish(member, {"type": ["a"]})
    page = console.open(member)
    page.get_by_role("status").filter(has_text="Connected").wait_for()


def _problems(page: Page, axe: str) -> list[dict[str, Any]]:
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], iframes: false})")["violations"]
    return [_told(one) for one in found if one["impact"] in SERIOUS]


def _told(problem: dict[str, Any]) -> dict[str, Any]:
    nodes = problem["nodes"]
    return {"rule": problem["id"], "where": [one["html"][:160] for one in nodes[:3]], "why": nodes[0]["failureSummary"]}
