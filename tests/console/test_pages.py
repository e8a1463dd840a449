"""The Reports, System and API pages."""

import json
import subprocess
from pathlib import Path

from tests.console.browsing import Console, publish
from tests.serving import Member, Server, new_organization_name

REPORT = """<!doctype html><title>Report</title><style>h1 { color: rgb(1, 2, 3) }</style>
<h1>A month of jobs</h1><script>document.title = 'run'; parent.postMessage('run', '*')</script>"""


def test_report_opens_in_a_sandboxed_frame(console: Console, member: Member) -> None:
    server = member.create()
    _put_report(member.server.data_dir, server)
    publish(member, {"type": ["report", "ready", "report"], "key": "/report/report"})
    page = console.open(member, "#/reports")
    page.get_by_role("link", name="Open").click()
    frame = page.frame_locator(".report-frame")
    heading = frame.get_by_role("heading", name="A month of jobs")
    heading.wait_for()
    assert heading.evaluate("one => getComputedStyle(one).color") == "rgb(1, 2, 3)"
    assert heading.evaluate("() => [document.title, origin]") == ["Report", "null"]
    console.complaints = [one for one in console.complaints if "Blocked script execution" not in one]


def test_no_reports_shows_make_report(console: Console, member: Member) -> None:
    page = console.open(member, "#/reports")
    page.get_by_role("heading", name="No reports yet").wait_for()
    assert page.get_by_label("Create a report", exact=True).inner_text() == "make report"


def test_system_page_shows_head_and_consumer_lag(console: Console, demo: Member) -> None:
    page = console.open(demo, "#/system")
    told = demo.get("/system").json()
    rows = page.get_by_label("Consumers").locator("tbody tr")
    rows.first.wait_for()
    assert [text.split()[0] for text in rows.all_inner_texts()] == [one["name"] for one in told["consumers"]]
    page.get_by_text(str(told["head"]["eventId"])).wait_for()
    page.get_by_label("Installation").get_by_text(told["version"]).wait_for()
    assert page.eval_on_selector_all(".tile", "tiles => tiles.every(tile => tile.scrollWidth <= tile.clientWidth)")


def test_organization_can_be_switched(console: Console, server: Server) -> None:
    both = server.member(new_organization_name(), new_organization_name())
    for name in both.organizations:
        server.member(name).create()
    publish(server.member(both.organizations[1]), {"type": ["only", "here"]})
    page = console.open(both)
    page.get_by_role("heading", name="No events yet").wait_for()
    page.get_by_label("Organization").select_option(both.organizations[1])
    page.get_by_text("only/here").wait_for()
    page.goto(f"{server.url}/#/system")
    page.get_by_role("button", name=both.organizations[0]).click()
    page.get_by_label("Organizations").get_by_text("shown now").wait_for()
    assert page.evaluate("sessionStorage.getItem('annals.organization')") == both.organizations[0]


def test_api_page_commands_work(console: Console, demo: Member) -> None:
    page = console.open(demo, "#/api/events")
    place = page.get_by_role("cell", name="query", exact=True).first
    place.wait_for()
    assert place.evaluate("cell => cell.getClientRects()[0].height") < 40
    page.get_by_role("heading", name="POST /events", exact=True).wait_for()
    command = page.get_by_label("POST /events", exact=True).inner_text()
    ran = subprocess.run(
        ["sh", "-c", f"{command} -sS"],
        capture_output=True,
        env={"TOKEN": demo.token, "PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert len(json.loads(ran.stdout)["events"]) == 1
    page.get_by_role("link", name="Observers").last.click()
    page.get_by_role("heading", name="PUT /observers/{name}").wait_for()


def test_every_operation_has_a_command(console: Console, demo: Member) -> None:
    described = demo.get("/openapi.json").json()
    wanted = {
        f"{method.upper()} {path}"
        for path, item in described["paths"].items()
        for method in item
        if method in ("get", "post", "put", "delete")
    }
    page = console.open(demo, "#/api")
    page.locator(".tree-link").first.wait_for()
    found: set[str] = set()
    for tag in described["tags"]:
        page.goto(f"{demo.server.url}/#/api/{tag['name']}")
        page.locator(".tree-link[aria-current]").get_by_text(tag["name"], exact=False).wait_for()
        labels = page.eval_on_selector_all(".operation .command pre", "found => found.map(one => one.ariaLabel)")
        found |= set(labels)
    assert found == wanted


def test_command_is_copied_with_a_button(console: Console, member: Member) -> None:
    console.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = console.open(member)
    page.get_by_role("button", name="Copy: Publish an event").click()
    page.get_by_role("status").get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith(f"curl {member.server.url}/events")


def test_unreachable_server_is_shown_as_an_error(console: Console, demo: Member) -> None:
    page = console.open(demo, "#/system")
    page.get_by_role("heading", name="Consumers").wait_for()
    page.route("**/system", lambda route: route.abort())
    page.get_by_role("alert").get_by_text("The server cannot be reached").wait_for()
    page.unroute("**/system")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="Consumers").wait_for()


def _put_report(data_dir: Path, server: int) -> None:
    lake = data_dir / "lake" / "reports"
    lake.mkdir(parents=True, exist_ok=True)
    (lake / f"report-{server}.html").write_text(REPORT)
