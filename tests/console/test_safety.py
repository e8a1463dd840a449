"""Event data is displayed and never executed."""

from tests.console.browsing import Console, publish, shown_event
from tests.serving import Member

IMAGE = "<img src=x onerror=\"document.title='run'\">"
SCRIPT = "<script>document.title='run'</script>"
LINK = "javascript:document.title='run'"
HOSTILE = {
    "type": ["<b>type", SCRIPT.replace("/", "")],
    "key": f"/{IMAGE}",
    "payload": {"type": "json", "data": {SCRIPT: IMAGE, "__proto__": {"polluted": True}, "link": LINK}},
}


def assert_nothing_ran(console: Console) -> None:
    """The title is unchanged and no foreign element is in the page."""
    assert "run" not in console.page.title()
    assert (
        console.page.evaluate("document.querySelectorAll('#console img:not(.brand img), #console script').length") == 0
    )
    assert console.page.evaluate("({}).polluted") is None


def test_event_fields_are_rendered_as_text(console: Console, member: Member) -> None:
    publish(member, HOSTILE)
    page = console.open(member)
    page.get_by_role("row").filter(has_text="<b>type").click()
    assert shown_event(page)["payload"]["data"][SCRIPT] == IMAGE
    page.get_by_role("link", name=f"/{IMAGE}").click()
    page.get_by_role("row").filter(has_text="<b>type").wait_for()
    assert_nothing_ran(console)


def test_object_fields_are_rendered_as_text(console: Console, member: Member) -> None:
    job = {"event": "create", "node": IMAGE, "id": 1, "type": SCRIPT.replace("/", ""), "params": {IMAGE: SCRIPT}}
    publish(member, job, vocabulary="job")
    log = {"message": SCRIPT, "level": 0, "tag": IMAGE}
    told = {**job, "event": "progress", "state": IMAGE, "progress": SCRIPT, "log": log}
    publish(member, told, {**job, "event": "finish", "success": "0", "message": IMAGE}, vocabulary="job")
    page = console.open(member, "#/objects/job")
    page.get_by_role("row").filter(has_text=IMAGE).click()
    page.get_by_label("Result").get_by_text(IMAGE).wait_for()
    page.get_by_label("Logs").first.get_by_text(SCRIPT).wait_for()
    page.get_by_label("Time travel: state after event").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.locator(".object-state").get_by_text(IMAGE).wait_for()
    assert_nothing_ran(console)


def test_orders_with_odd_paths_open(console: Console, member: Member) -> None:
    key = "/shop/<b>a&b</b>%2F#?x,1 2".replace("?", "").replace("/b>", "b>")
    publish(member, {"TYPE": "OrderAdded", "key": key, "nodeId": IMAGE}, vocabulary="scheduler")
    page = console.open(member, "#/objects/order")
    page.get_by_role("row").filter(has_text=key).click()
    page.get_by_role("heading", name=key).wait_for()
    page.get_by_label("Facts").get_by_text(IMAGE).first.wait_for()
    assert_nothing_ran(console)


def test_rendered_message_cannot_run_scripts(console: Console, member: Member) -> None:
    common = {"node": "n1", "id": 1, "type": "backup", "props": {"author": IMAGE}}
    publish(
        member,
        {**common, "event": "create"},
        {**common, "event": "finish", "success": "1", "message": SCRIPT},
        vocabulary="job",
    )
    config = {"to": "a@example.org", "from": "b@example.org", "title": IMAGE}
    for channel, more in (
        ("mail", config),
        ("app", {"to": "anna"}),
        ("slack", {"url": "https://hooks.slack.com/services/T/B/x"}),
    ):
        member.request(
            "PUT", f"/observers/{channel}", json={"channel": channel, "types": ["job/finish/*"], "config": more}
        )
        page = console.open(member, f"#/observers/{channel}")
        page.get_by_label("Preview", exact=True).get_by_text("would be sent", exact=True).wait_for()
        if channel == "mail":
            frame = page.frame_locator(".mail-frame")
            frame.get_by_text(SCRIPT, exact=True).wait_for()
            assert page.locator(".mail-frame").get_attribute("sandbox") == "allow-same-origin"
            assert frame.locator("script").count() == 0
        assert_nothing_ran(console)


def test_invalid_address_shows_an_error(console: Console, member: Member) -> None:
    page = console.page
    for place in ("#/%E0%A4%A", f"#/objects/{SCRIPT}", "#/observers/%2e%2e%2f", f"#/live?types={IMAGE}", "#/__proto__"):
        console.open(member, place)
        page.get_by_role("navigation", name="Pages").wait_for()
    assert_nothing_ran(console)
