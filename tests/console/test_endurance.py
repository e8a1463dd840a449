"""The console under load and across a server restart."""

import signal
from pathlib import Path

import pytest

from tests.console.browsing import Console, eventually, publish
from tests.console.event_load import BATCH, publish_steadily
from tests.serving import Member, Server, run_server

pytestmark = pytest.mark.serial

SECONDS = 12
MEASURED_S = 10
LONGEST_FRAME_MS = 200
KEPT = 5_000

WATCH = """() => {
    window.watched = {frames: 0, longest: 0, tasks: 0};
    let last = performance.now();
    const frame = now => {
        watched.frames += 1;
        watched.longest = Math.max(watched.longest, now - last);
        last = now;
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(now => { last = now; requestAnimationFrame(frame); });
    new PerformanceObserver(list => {
        for (const task of list.getEntries()) watched.tasks = Math.max(watched.tasks, task.duration);
    }).observe({type: 'longtask'});
}"""


def test_live_page_500_events_per_s_stays_responsive(console: Console, member: Member) -> None:
    publish(member, {"type": ["first"]})
    page = console.open(member)
    console.wait_for_state("connected")
    with publish_steadily(member, SECONDS) as written:
        console.wait("() => Number(document.querySelector('.live').dataset.seen) > 500")
        page.evaluate(WATCH)
        page.wait_for_function("ms => performance.now() > ms", arg=_now(console) + MEASURED_S * 1000, timeout=60_000)
        watched = page.evaluate("watched")
        nodes = page.evaluate("document.querySelectorAll('*').length")
    assert watched["frames"] > MEASURED_S * 10
    assert watched["longest"] < LONGEST_FRAME_MS, watched
    assert watched["tasks"] < LONGEST_FRAME_MS, watched
    assert nodes < 700
    eventually(page, lambda: console.cells("cell-key")[0] == f"/n/{written[0] - 1}")
    assert page.locator(".live").get_attribute("data-seen") == str(written[0])
    assert page.get_by_role("grid").get_attribute("aria-rowcount") == str(KEPT + 1)


def test_object_list_under_load_stays_responsive(console: Console, member: Member) -> None:
    create = [{"event": "create", "node": "n1", "id": n, "type": "backup"} for n in range(1, 501)]
    publish(member, *create, vocabulary="job")
    page = console.open(member, "#/objects/job")
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length > 10")
    console.wait_for_state("connected")
    page.evaluate(WATCH)
    for share in range(1, 21):
        told = [{**one, "event": "progress", "state": "running", "progress": f"{share}%"} for one in create[:BATCH]]
        publish(member, *told, vocabulary="job")
    eventually(page, lambda: "20%" in console.cells("cell-progress"))
    watched = page.evaluate("watched")
    assert watched["longest"] < LONGEST_FRAME_MS, watched


def test_live_page_after_restart_shows_each_event_once(console: Console, tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        port = str(server.port)
        publish(member, *_numbered(0, 20))
        page = console.open(member)
        console.wait_for_state("connected")
        publish(member, *_numbered(20, 40))
        eventually(page, lambda: console.cells("cell-key")[0] == "/n/39")
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        console.wait_for_state("reconnecting")
    with run_server(tmp_path, PORT=port) as again:
        _publish_to(again, member, 40, 300)
        console.wait_for_state("connected")
        _publish_to(again, member, 300, 320)
        eventually(page, lambda: console.cells("cell-key")[0] == "/n/319")
        assert _all_keys(console) == [f"/n/{n}" for n in range(319, -1, -1)]
        assert page.locator(".live").get_attribute("data-seen") == "300"
        page.goto("about:blank")


@pytest.mark.parametrize("place", ["#/objects/job", "#/objects/job/1"])
def test_objects_page_recovers_after_restart(console: Console, tmp_path: Path, place: str) -> None:
    told = {"event": "create", "node": "n1", "id": 1, "type": "backup"}
    with run_server(tmp_path) as server:
        member, port = server.organization(), str(server.port)
        publish(member, told, vocabulary="job")
        page = console.open(member, place)
        page.get_by_text("created").first.wait_for()
        console.wait_for_state("connected")
        server.signal(signal.SIGKILL)
        console.wait_for_state("reconnecting")
    with run_server(tmp_path, PORT=port) as again:
        back = again.member(member.organization)
        publish(back, {**told, "event": "finish", "success": "0", "message": "broken"}, vocabulary="job")
        page.get_by_text("failed").first.wait_for()
        page.goto("about:blank")


def _numbered(first: int, end: int) -> list[dict[str, object]]:
    return [{"type": ["count", "up"], "key": f"/n/{number}"} for number in range(first, end)]


def _publish_to(server: Server, member: Member, first: int, end: int) -> None:
    publish(server.member(member.organization), *_numbered(first, end))


def _all_keys(console: Console) -> list[str]:
    """All keys of the list, read by scrolling through it."""
    view = console.page.get_by_role("grid")
    found: dict[int, str] = {}
    rows = int(console.page.get_by_role("grid").get_attribute("aria-rowcount") or 0) - 1
    for top in range(0, rows * 30, 300):
        view.evaluate("(view, top) => { view.scrollTop = top; }", top)
        console.wait("top => Math.abs(document.querySelector('.rows').scrollTop - top) < 600", top)
        console.page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        shown: list[list[object]] = console.page.evaluate(
            "[...document.querySelectorAll('.rows-view .rows-row')].map(row => "
            "[Number(row.ariaRowIndex), row.querySelector('.cell-key').textContent])"
        )
        found |= {int(str(index)): str(key) for index, key in shown}
    return [found[index] for index in sorted(found)]


def _now(console: Console) -> float:
    now: float = console.page.evaluate("performance.now()")
    return now
