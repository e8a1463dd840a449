"""The Objects pages: live lists, and one object in the present and the past."""

from typing import Any

import pytest
from playwright.sync_api import Route

from tests.console.browsing import PHONE, Console, eventually, publish
from tests.serving import Member


def job(number: int, event: str, **more: Any) -> dict[str, Any]:
    """A job event in AnyJob's format."""
    kind = {} if event == "redirect" else {"type": "backup"}
    return {"event": event, "node": "n1", "id": number, **kind, **more}


def a_finished_job(member: Member, number: int = 7) -> list[dict[str, Any]]:
    """A job with log lines that finished; each event is its own commit."""
    told = [
        job(number, "create", params={"db": "orders"}, props={"author": "anna"}),
        job(number, "progress", state="running", progress="40%"),
        job(number, "progress", log={"message": "copying <b>", "level": 0, "tag": "cp"}),
        job(number, "finish", success="1", message="all copied"),
    ]
    return [one for event in told for one in publish(member, event, vocabulary="job")]


def test_live_list_equals_a_new_snapshot(console: Console, member: Member) -> None:
    publish(member, *(job(number, "create") for number in range(1, 5)), vocabulary="job")
    page = console.open(member, "#/objects/job")
    console.wait("() => document.querySelectorAll('.rows-view .rows-row').length === 4")
    console.wait_for_state("connected")
    publish(
        member,
        job(1, "progress", state="running", progress="40%"),
        job(2, "finish", success="1", message="done"),
        job(3, "finish", success="0", message="broken"),
        job(5, "create"),
        vocabulary="job",
    )
    brief = member.get("/objects/job?brief=yes").json()
    paths = [one["path"] for one in brief["elements"]]
    eventually(page, lambda: sorted(console.cells("cell-name")) == sorted(paths))
    assert console.cells("cell-label") == [one["label"] for one in brief["elements"]]
    states = dict(zip(console.cells("cell-name"), console.cells("cell-state"), strict=True))
    assert states == {"/1": "running", "/2": "succeeded", "/3": "failed", "/4": "created", "/5": "created"}
    page.get_by_text("40%").wait_for()
    chips = page.locator(".chip").all_inner_texts()
    counts = brief["counts"] | {"failed": brief["results"]["failure"]}
    assert {tuple(text.split()) for text in chips} == {(state, str(n)) for state, n in counts.items()}
    page.locator(".chip[data-state=failure]").click()
    eventually(page, lambda: console.cells("cell-name") == ["/3"])
    page.get_by_text("1 of 5 jobs").wait_for()
    page.goto(f"{member.server.url}/#/objects/job?state=failed")
    eventually(page, lambda: console.cells("cell-name") == ["/3"])
    page.get_by_text("1 of 5 jobs").wait_for()


def test_state_and_search_filter_the_list(console: Console, member: Member) -> None:
    states = {"deploy-1": "complete", "deploy-2": "quorum_failed", "deploy-3": "complete"}
    start = {"event": "start", "command": "deploy", "run_timeout": 900, "quorum": 1, "node_count": 1, "user": "anna"}
    publish(member, *({**start, "job": job} for job in states), vocabulary="push")
    ends = ({"event": "job_complete", "job": job, "status": status} for job, status in states.items())
    publish(member, *ends, vocabulary="push")
    page = console.open(member, "#/objects/pushJob")
    chip = page.locator(".chip[data-state=quorum_failed]")
    chip.click()
    eventually(page, lambda: console.cells("cell-state") == ["too few nodes agreed"])
    chip.click()
    eventually(page, lambda: len(console.cells("cell-state")) == len(states))
    page.get_by_label("Search").fill("deploy-3")
    eventually(page, lambda: console.cells("cell-name") == ["/deploy-3"])
    page.get_by_label("Search").fill("no such job")
    page.get_by_role("heading", name="Nothing matches").wait_for()


def test_filter_change_never_shows_an_empty_list(console: Console, member: Member) -> None:
    """The console replaces `state=failed` by the result. Meanwhile it must not say that nothing matches."""
    publish(member, job(3, "create"), job(3, "finish", success="0", message="broken"), vocabulary="job")
    page = console.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/objects/job?*result=failure*", hold)
    with page.expect_request("**/objects/job?*result=failure*"):
        console.open(member, "#/objects/job?state=failed")
    # The page draws 150 ms after the first response, in a frame.
    page.evaluate("() => new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done)), 200))")
    assert page.get_by_text("Nothing matches").count() == 0
    page.get_by_text("Loading the objects").wait_for()
    held[0].continue_()
    eventually(page, lambda: console.cells("cell-name") == ["/3"])


def test_folder_counts_of_cut_list_are_lower_bounds(console: Console, member: Member) -> None:
    """A list shows the 2,000 most recent objects."""
    keys = [f"/old/chain,{number}" for number in range(10)] + [f"/new/chain,{number}" for number in range(1_995)]
    added = [{"TYPE": "OrderAdded", "key": key, "nodeId": "100"} for key in keys]
    for start in range(0, len(added), 1_000):
        publish(member, *added[start : start + 1_000], vocabulary="scheduler")
    page = console.open(member, "#/objects/order")
    page.get_by_text("2,005 orders, showing the 2,000 most recent").wait_for()
    page.get_by_role("link", name="old 5+").wait_for()
    page.get_by_role("link", name="new 1,995+").wait_for()


def test_orders_show_folders_and_statistics(console: Console, member: Member) -> None:
    keys = ["/shop/eu/checkout,1", "/shop/checkout,2", "/data/load,3"]
    publish(member, *({"TYPE": "OrderAdded", "key": key, "nodeId": "100"} for key in keys), vocabulary="scheduler")
    page = console.open(member, "#/objects/order")
    page.get_by_label("OrderStatistics").get_by_text("not planned").wait_for()
    publish(member, {"TYPE": "OrderStarted", "key": keys[0]}, vocabulary="scheduler")
    eventually(page, lambda: "waiting for resource" in console.cells("cell-state"))
    page.get_by_role("link", name="shop 2").click()
    eventually(page, lambda: sorted(console.cells("cell-name")) == ["/shop/checkout,2", "/shop/eu/checkout,1"])
    page.get_by_role("link", name="eu 1").click()
    eventually(page, lambda: console.cells("cell-name") == ["/shop/eu/checkout,1"])
    publish(member, {"TYPE": "OrderRemoved", "key": keys[0]}, vocabulary="scheduler")
    page.get_by_role("heading", name="Nothing matches").wait_for()


@pytest.mark.parametrize("collection", ["job", "jobset", "pushJob", "jobChain", "task", "fileBased", "scheduler"])
def test_demo_collection_is_listed_and_opens(console: Console, demo: Member, collection: str) -> None:
    page = console.open(demo, f"#/objects/{collection}")
    first = page.locator(".rows-view .rows-row").first
    first.click()
    page.get_by_role("heading", name="Facts").wait_for()
    page.locator(".timeline svg rect.span").first.wait_for()
    assert page.locator(".object-state").inner_text() not in ("", "gone", "unknown")


def test_job_page_shows_result_logs_and_timeline(console: Console, member: Member) -> None:
    events = a_finished_job(member)
    page = console.open(member, "#/objects/job/7")
    page.get_by_label("Result").get_by_text("all copied").wait_for()
    page.get_by_label("Logs").get_by_text("copying <b>").wait_for()
    spans = page.locator(".timeline rect.span")
    widths = [float(spans.nth(index).get_attribute("width") or 0) for index in range(2)]
    times = [event["eventId"] for event in events]
    expected = (times[1] - times[0]) / (times[3] - times[1])
    assert max(widths[0], 4.0) == pytest.approx(max(4.0, expected * widths[1]), rel=0.05)
    assert page.locator(".object-events tbody tr").count() == 4


def test_slider_shows_past_state(console: Console, member: Member) -> None:
    events = a_finished_job(member)
    page = console.open(member, "#/objects/job/7")
    page.locator(".object-state").get_by_text("succeeded").wait_for()
    slider = page.get_by_label("Time travel: state after event")
    slider.focus()
    page.keyboard.press("Home")
    page.locator(".object-state").get_by_text("created").wait_for()
    page.get_by_text("After event 1 of 4: job/create/n1/backup").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator(".object-state").get_by_text("running").wait_for()
    assert f"at={events[1]['eventId']}" in page.url
    page.reload()
    page.locator(".object-state").get_by_text("running").wait_for()
    assert page.get_by_label("Result").count() == 0
    page.get_by_role("button", name="Now").click()
    page.locator(".object-state").get_by_text("succeeded").wait_for()


def test_object_page_is_live(console: Console, member: Member) -> None:
    publish(member, job(7, "create"), vocabulary="job")
    page = console.open(member, "#/objects/job/7")
    page.locator(".object-state").get_by_text("created").wait_for()
    console.wait_for_state("connected")
    publish(member, job(7, "finish", success="0", message="disk full"), vocabulary="job")
    page.locator(".object-state").get_by_text("failed").wait_for()
    page.get_by_label("Result").get_by_text("disk full").wait_for()


def push(event: str, **more: Any) -> dict[str, Any]:
    """An event of the push job j1."""
    return {"event": event, "job": "j1", **more}


def test_push_job_page_shows_node_states(console: Console, member: Member) -> None:
    publish(
        member,
        push("start", command="chef-client", run_timeout=60, node_count=3, user="anna", quorum=2),
        push("quorum_vote", node="web-1", status="success"),
        push("quorum_vote", node="web-2", status="success"),
        push("quorum_vote", node="db-1", status="down"),
        push("quorum_succeeded"),
        push("run_start", node="web-1"),
        vocabulary="push",
    )
    page = console.open(member, "#/objects/pushJob/j1")
    nodes = page.get_by_label("Nodes", exact=True)
    nodes.get_by_text("web-1").wait_for()
    found = {text.split("\n")[0]: text.split("\n")[2:] for text in nodes.locator(".nodes").all_inner_texts()}
    assert found == {"running": ["web-1"], "ready": ["web-2"], "unavailable": ["db-1"]}
    publish(member, push("run_complete", node="web-1", status="success"), vocabulary="push")
    nodes.get_by_text("succeeded").wait_for()


def test_jobset_page_shows_bars_of_its_jobs(console: Console, member: Member) -> None:
    planned = [{"node": "n1", "type": "backup", "params": {}, "props": {}}] * 2
    publish(member, {"event": "createJobSet", "node": "n1", "id": 3, "props": {}, "jobs": planned}, vocabulary="job")
    publish(member, job(31, "create", jobset=3), job(32, "create", jobset=3), vocabulary="job")
    publish(member, job(31, "finish", jobset=3, success="1", message="done"), vocabulary="job")
    page = console.open(member, "#/objects/jobset/3")
    page.get_by_role("heading", name="Jobs: 1 of 2 finished").wait_for()
    page.locator(".timeline-name").nth(2).wait_for()
    names = page.eval_on_selector_all(".timeline-name", "found => found.map(one => one.firstChild.data)")
    assert names == ["Job set", "backup 31", "backup 32"]
    page.locator("a.timeline-link").nth(1).click()
    page.locator(".object-state").get_by_text("created").wait_for()


def test_failed_job_set_is_failed_in_list_and_page(console: Console, member: Member) -> None:
    planned = [{"node": "n1", "type": "backup", "params": {}, "props": {}}] * 2
    create_set = {"event": "createJobSet", "node": "n1", "id": 3, "props": {}, "jobs": planned}
    publish(member, create_set, job(31, "create", jobset=3), job(32, "create", jobset=3), vocabulary="job")
    page = console.open(member, "#/objects/jobset")
    eventually(page, lambda: console.cells("cell-state") == ["created"])
    ends = (job(31, "finish", jobset=3, success="1", message=""), job(32, "finish", jobset=3, success="0", message=""))
    publish(member, *ends, vocabulary="job")
    eventually(page, lambda: console.cells("cell-state") == ["failed"])
    page.locator(".rows-view .rows-row").click()
    page.locator(".object-state").get_by_text("failed").wait_for()
    page.locator(".timeline rect.span-bad").first.wait_for()


@pytest.mark.parametrize(("transition", "expected"), [("Error", "failed"), ("Success", "succeeded")])
def test_finished_order_shows_its_result(console: Console, member: Member, transition: str, expected: str) -> None:
    key = "/nightly/settle,1"
    end = {"TYPE": transition, **({"returnCode": 1} if transition == "Error" else {})}
    publish(member, {"TYPE": "OrderAdded", "key": key, "nodeId": "100"}, vocabulary="scheduler")
    page = console.open(member, "#/objects/order")
    eventually(page, lambda: console.cells("cell-state") == ["not planned"])
    console.wait_for_state("connected")
    publish(
        member,
        {"TYPE": "OrderStarted", "key": key},
        {"TYPE": "OrderStepStarted", "key": key, "nodeId": "100", "taskId": "9"},
        {"TYPE": "OrderStepEnded", "key": key, "nodeTransition": end},
        {"TYPE": "OrderFinished", "key": key, "nodeId": "100"},
        vocabulary="scheduler",
    )
    eventually(page, lambda: console.cells("cell-state") == [expected])
    page.reload()
    eventually(page, lambda: console.cells("cell-state") == [expected])
    page.locator(".rows-view .rows-row").click()
    page.locator(".object-state").get_by_text(expected).wait_for()


def test_removed_orders_are_not_called_new(console: Console, member: Member) -> None:
    key = "/nightly/settle,1"
    publish(member, {"TYPE": "OrderAdded", "key": key, "nodeId": "100"}, vocabulary="scheduler")
    publish(member, {"TYPE": "OrderRemoved", "key": key}, vocabulary="scheduler")
    page = console.open(member, "#/objects/order")
    page.get_by_role("heading", name="No orders at present").wait_for()
    page.get_by_role("link", name="Show their events").click()
    eventually(page, lambda: console.cells("cell-key") == [key, key])


def test_push_job_with_failed_nodes_is_not_successful(console: Console, member: Member) -> None:
    publish(
        member,
        push("start", command="chef-client", run_timeout=60, node_count=3, user="anna", quorum=2),
        push("quorum_vote", node="web-1", status="success"),
        push("quorum_vote", node="web-2", status="success"),
        push("quorum_vote", node="db-1", status="failure"),
        push("quorum_succeeded"),
        *(push("run_start", node=node) for node in ("web-1", "web-2")),
        push("run_complete", node="web-1", status="success"),
        push("run_complete", node="web-2", status="failure"),
        push("job_complete", status="complete"),
        vocabulary="push",
    )
    page = console.open(member, "#/objects/pushJob")
    eventually(page, lambda: console.cells("cell-state") == ["complete, nodes failed"])
    page.locator(".rows-view .rows-row").click()
    page.locator(".object-state").get_by_text("2 of 3 nodes failed or refused").wait_for()
    assert page.locator(".object-state .badge.tone-bad").inner_text() == "complete, nodes failed"


def test_duration_of_running_job_grows(console: Console, member: Member) -> None:
    publish(member, job(7, "create"), vocabulary="job")
    publish(member, job(8, "create"), job(8, "finish", success="1", message="done"), vocabulary="job")
    page = console.page
    page.clock.install()
    console.open(member, "#/objects/job")
    eventually(page, lambda: console.cells("cell-name") == ["/8", "/7"])
    page.clock.run_for(3_600_000)
    eventually(page, lambda: console.cells("cell-duration")[1] in ("60 min", "1 h"))
    assert console.cells("cell-duration")[0].endswith(" ms")


def test_past_of_later_object_says_that_it_did_not_exist(console: Console, member: Member) -> None:
    before = publish(member, {"type": ["a"]})[0]["eventId"]
    publish(member, job(7, "create"), vocabulary="job")
    page = console.open(member, f"#/objects/job/7?at={before}")
    page.get_by_text(f"/objects/job/7 did not exist as of event {before}").wait_for()


def test_unknown_object_shows_not_found(console: Console, member: Member) -> None:
    """An order names its chain, which may have no events."""
    publish(member, {"TYPE": "OrderAdded", "key": "/a/chain,1", "nodeId": "100"}, vocabulary="scheduler")
    page = console.open(member, "#/objects/order/a/chain,1")
    page.get_by_role("link", name="/a/chain").click()
    page.get_by_role("heading", name="No such job chain").wait_for()
    assert page.locator(".object .card").count() == 0
    console.wait_for_state("none")
    page.get_by_role("link", name="Show all job chains").click()
    page.get_by_role("heading", name="No job chains yet").wait_for()
    page.goto(f"{member.server.url}/#/objects/nonsense")
    page.get_by_text('Unknown collection "nonsense".').wait_for()


def test_view_opens_when_the_server_is_back(console: Console, member: Member) -> None:
    """The module of the view was not loaded before the server went away."""
    page = console.open(member, "#/live")
    console.wait_for_state("connected")
    page.route("**/*", lambda route: route.abort())
    page.get_by_role("link", name="Objects").click()
    page.get_by_text("This page opens when the server is back").wait_for()
    console.wait_for_state("reconnecting")
    page.unroute("**/*")
    page.get_by_role("heading", name="No jobs yet").wait_for()


def test_names_are_shown_on_a_phone(console: Console, member: Member) -> None:
    page = console.page
    page.set_viewport_size(PHONE)
    publish(member, job(7, "create"), vocabulary="job")
    publish(member, {"TYPE": "OrderAdded", "key": "/nightly/settlement,6000", "nodeId": "100"}, vocabulary="scheduler")
    console.open(member, "#/objects/job")
    page.get_by_text("backup on n1").wait_for()
    page.goto(f"{member.server.url}/#/objects/order")
    name = page.locator(".rows-view .cell-label")
    name.get_by_text("6000 at 100, in /nightly/settlement").wait_for()
    assert name.evaluate("cell => cell.scrollHeight <= cell.clientHeight && cell.scrollWidth <= cell.clientWidth")
    for place in ("#/observers", "#/system"):
        page.goto(f"{member.server.url}/{place}")
        page.locator(".page-head").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_empty_collection_shows_publish_command(console: Console, member: Member) -> None:
    page = console.open(member, "#/objects/pushJob")
    page.get_by_role("heading", name="No push jobs yet").wait_for()
    assert f"curl {member.server.url}/events/push " in page.get_by_label("Publish an event", exact=True).inner_text()
