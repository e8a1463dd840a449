"""The Live page."""

import json
import re
import time
from pathlib import Path

from tests.console.browsing import Console, eventually, publish, shown_event
from tests.serving import TIMEOUT_S, Member, run_server


def numbered(first: int, last: int) -> list[dict[str, object]]:
    """Events with numbered keys."""
    return [{"type": ["count", "up"], "key": f"/n/{number}"} for number in range(first, last + 1)]


def test_events_appear_newest_first(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 3))
    console.open(member)
    console.wait_for_state("connected")
    assert console.cells("cell-key") == ["/n/3", "/n/2", "/n/1"]
    publish(member, *numbered(4, 5))
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 5")
    assert console.cells("cell-key") == ["/n/5", "/n/4", "/n/3", "/n/2", "/n/1"]


def test_filter_by_type_key_and_vocabulary(console: Console, member: Member) -> None:
    publish(member, {"type": ["deploy", "started"], "key": "/web"}, {"type": ["deploy", "done"], "key": "/db"})
    publish(member, {"event": "create", "node": "n1", "id": 7, "type": "backup"}, vocabulary="job")
    page = console.open(member)
    page.get_by_label("Type", exact=True).fill("deploy/*")
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 2")
    assert console.cells("cell-key") == ["/db", "/web"]
    page.get_by_label("Key", exact=True).fill("/web")
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 1")
    assert console.cells("cell-type") == ["deploy/started"]
    page.get_by_label("Type", exact=True).fill("")
    page.get_by_label("Key", exact=True).fill("")
    page.get_by_label("Source").select_option("job")
    console.wait("() => document.querySelector('.rows-view .cell-key')?.textContent === '/job/7'")
    page.get_by_label("Source").select_option("other")
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 2")
    page.reload()
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 2")
    publish(member, {"event": "create", "node": "n1", "id": 8, "type": "backup"}, vocabulary="job")
    publish(member, {"type": ["deploy", "late"], "key": "/web"})
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 3")
    assert console.cells("cell-type")[0] == "deploy/late"


def test_key_prefix_searches_the_whole_log(console: Console, member: Member) -> None:
    start = {"event": "start", "job": "j1", "command": "ls", "run_timeout": 9, "node_count": 1, "user": "anna"}
    publish(member, start, vocabulary="push")
    publish(member, *({"type": ["noise"], "key": f"/n/{n}"} for n in range(400)))
    page = console.open(member, "#/live?key=/push/*")
    eventually(page, lambda: console.cells("cell-key") == ["/push/j1"])
    page.get_by_label("Key", exact=True).fill("/n/1*")
    eventually(page, lambda: len(console.cells("cell-key")) > 0 and console.cells("cell-key")[0] == "/n/199")
    page.get_by_label("Key", exact=True).fill("/none/*")
    page.get_by_text("No event in this log matches the filter.").wait_for()


def test_old_events_show_their_date(console: Console, demo: Member) -> None:
    page = console.open(demo, "#/live?types=job/finish/*")
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length > 5")
    page.get_by_role("columnheader", name="Time, UTC").wait_for()
    page.locator(".rows").focus()
    page.keyboard.press("End")
    eventually(page, lambda: bool(re.fullmatch(r"\d+ \w{3,4} [\d:]{8}", console.cells("cell-time")[-1])))


def test_pause_loses_no_events(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 1))
    page = console.open(member)
    console.wait_for_state("connected")
    page.get_by_role("button", name="Pause").click()
    publish(member, *numbered(2, 9))
    page.get_by_role("button", name="8 new").wait_for()
    assert console.cells("cell-key") == ["/n/1"]
    page.get_by_role("button", name="8 new").click()
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 9")
    assert console.cells("cell-key") == [f"/n/{number}" for number in range(9, 0, -1)]


def test_long_pause_resumes_from_the_server(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 1))
    page = console.open(member)
    console.wait_for_state("connected")
    page.get_by_role("button", name="Pause").click()
    for first in range(2, 6_502, 500):
        publish(member, *numbered(first, first + 499))
    console.wait_for_state("held")
    page.get_by_role("button", name="new)").click()
    console.wait("() => document.querySelector('.live').dataset.seen === '6500'")
    eventually(page, lambda: console.cells("cell-key")[0] == "/n/6501")


def test_event_panel_shows_json_and_position(console: Console, member: Member) -> None:
    events = publish(member, *numbered(1, 3)) + publish(member, *numbered(4, 6))
    page = console.open(member)
    page.get_by_role("row").filter(has_text="/n/4").click()
    panel = page.get_by_role("region", name="Event", exact=True)
    assert shown_event(page) == events[3]
    panel.get_by_text("commit 2, event 1").wait_for()
    neighbours = panel.locator(".neighbours li")
    neighbours.nth(3).wait_for()
    found = [text.split()[0] for text in neighbours.all_inner_texts()]
    assert found == [f"{one['id']['server']}.{one['id']['session']}.{one['id']['instance']}" for one in events]
    neighbours.nth(1).get_by_role("button").click()
    assert shown_event(page) == events[1]
    page.keyboard.press("Escape")
    assert page.get_by_label("The event as JSON").count() == 0


def test_arrow_keys_move_and_keep_the_selected_row(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 5))
    page = console.open(member)
    page.get_by_role("grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    publish(member, *numbered(6, 7))
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 7")
    page.keyboard.press("Enter")
    assert shown_event(page)["key"] == "/n/4"


def test_scrolled_list_keeps_its_position(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 200))
    page = console.open(member)
    console.wait_for_state("connected")
    page.get_by_role("grid").evaluate("grid => { grid.scrollTop = 3000; }")
    page.get_by_role("row").filter(has_text="/n/95").wait_for()
    before = page.get_by_role("row").filter(has_text="/n/95").bounding_box()
    publish(member, *numbered(201, 260))
    eventually(page, lambda: page.get_by_role("grid").get_attribute("aria-rowcount") == "261")
    assert page.get_by_role("row").filter(has_text="/n/95").bounding_box() == before
    page.get_by_role("button", name="Jump to newest").click()
    eventually(page, lambda: console.cells("cell-key")[0] == "/n/260")


def test_the_rate_is_drawn(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 1))
    page = console.open(member)
    console.wait_for_state("connected")
    publish(member, *numbered(2, 41))
    page.get_by_text("peak 40/s").wait_for()
    assert page.locator(".rate-bars").get_attribute("d")


def test_only_visible_rows_are_in_the_page(console: Console, demo: Member) -> None:
    page = console.open(demo)
    console.wait_for_state("connected")
    page.wait_for_function("document.querySelector('[role=grid]')?.getAttribute('aria-rowcount') > 200")
    assert page.locator(".rows-view .rows-row").count() < 60


def test_feed_behind_buffering_proxy_polls(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 1))
    page = console.page
    page.clock.install()
    held = []
    page.route(
        "**/events",
        lambda route: held.append(route) if route.request.headers.get("last-event-id") else route.continue_(),
    )
    with page.expect_request(lambda request: "last-event-id" in request.headers):
        console.open(member)
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 1")
    page.clock.fast_forward(41_000)
    page.clock.fast_forward(2_000)
    console.wait("() => document.getElementById('feed-status').title.includes('long poll')")
    publish(member, *numbered(2, 2))
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 2")
    assert len(held) == 1


def test_feed_without_streaming_uses_pages(console: Console, tmp_path: Path) -> None:
    with run_server(tmp_path, STREAMS="no", LONGEST_POLL="1") as server:
        member = server.organization()
        publish(member, *numbered(1, 1))
        console.open(member)
        console.wait_for_state("connected")
        publish(member, *numbered(2, 2))
        console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 2")
        console.page.goto("about:blank")


def test_quiet_feed_without_streaming_is_connected_at_once(console: Console, tmp_path: Path) -> None:
    """Without streaming, as on AWS, the first page of a quiet log ends after 25 s."""
    with run_server(tmp_path, STREAMS="no", LONGEST_POLL="25") as server:
        member = server.organization()
        console.page.route(
            "**/events", lambda route: None if "last-event-id" in route.request.headers else route.continue_()
        )
        with console.page.expect_request(lambda request: "last-event-id" in request.headers):
            console.open(member)
        console.wait_for_state("connected")
        console.page.goto("about:blank")


def test_lagging_feed_shows_catching_up(console: Console, member: Member) -> None:
    publish(member, *numbered(1, 1))
    console.page.clock.install(time=time.time() + 3_600)
    console.open(member)
    console.wait_for_state("connected")
    publish(member, *numbered(2, 2))
    console.wait_for_state("behind")
    console.wait_for_state("connected")


def test_retention_gap_is_shown(console: Console, tmp_path: Path) -> None:
    with run_server(tmp_path, RETENTION_EVENTS="5") as server:
        member = server.organization()
        publish(member, *numbered(1, 1))
        page = console.open(member)
        console.wait_for_state("connected")
        console.context.set_offline(True)
        console.wait_for_state("reconnecting")
        for number in range(2, 40):
            publish(member, *numbered(number, number))
            assert member.get("/events?limit=-1").json()["eventSnapshots"][0]["key"] == f"/n/{number}"
        console.context.set_offline(False)
        page.get_by_role("alert").get_by_text("Gap: some events").wait_for(timeout=TIMEOUT_S * 1000)
        eventually(page, lambda: console.cells("cell-key")[0] == "/n/39")
        page.get_by_role("button", name="Dismiss").click()
        page.goto("about:blank")


def test_empty_log_shows_publish_command(console: Console, member: Member) -> None:
    page = console.open(member)
    page.get_by_role("heading", name="No events yet").wait_for()
    line = page.get_by_label("Publish an event", exact=True).inner_text()
    assert line.startswith(f"curl {member.server.url}/events ")
    assert "Bearer $TOKEN" in line
    body = json.loads(line.split("-d '")[1].removesuffix("'"))
    publish(member, *body["events"])
    console.wait("() => document.querySelector('.rows-view .cell-key')?.textContent === '/greeting'")


def test_bad_filter_shows_the_servers_message(console: Console, demo: Member) -> None:
    page = console.open(demo, "#/live?types=a/*/b")
    page.get_by_role("alert").get_by_text("Bad Request").wait_for()
