"""The Observers pages: configure, preview, test, failed deliveries."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.browsing import Console, eventually, publish
from tests.serving import Member, run_server

BREAKING = '{{ message }}{% if message == "break" %}{{ nothing.at.all }}{% endif %}'
"""A template that fails for some events, so that their deliveries are parked at once."""


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A member on a server with the failing template."""
    folder = tmp_path_factory.mktemp("observers")
    (folder / "templates" / "app").mkdir(parents=True)
    (folder / "templates" / "app" / "finish.subject.j2").write_text(BREAKING)
    with run_server(folder / "data", TEMPLATES_PATH=str(folder / "templates")) as server:
        yield server.organization()


def finish(number: int, message: str, success: str = "1") -> list[dict[str, Any]]:
    """A job from its creation to its end."""
    common = {"node": "n1", "id": number, "type": "backup", "props": {"author": "anna"}}
    return [{**common, "event": "create"}, {**common, "event": "finish", "success": success, "message": message}]


@pytest.mark.parametrize("groups", [["readers", "admins"], ["readers"]])
def test_command_for_first_observer_is_accepted(console: Console, member: Member, groups: list[str]) -> None:
    reader = member.server.member(member.organization, groups=groups, user="rita")
    page = console.open(reader, "#/observers")
    page.get_by_role("heading", name="No observers to show").wait_for()
    line = page.get_by_label("Create an observer", exact=True).inner_text()
    address, body = line.split()[3], line.split("-d '")[1].removesuffix("'")
    path = address.removeprefix(member.server.url)
    assert reader.request("PUT", path, json=json.loads(body)).status_code == 201
    page.get_by_role("link", name=path.rpartition("/")[2]).wait_for()


def test_invalid_observer_name_is_explained(console: Console, owner: Member) -> None:
    page = console.open(owner, "#/observers?new=yes")
    name = page.get_by_label("Name")
    name.fill("night shift")
    page.get_by_role("button", name="Save").click()
    message = "field => field.validationMessage"
    assert name.evaluate(message).startswith("Use 1 to 100 letters, digits")
    name.fill("night-shift")
    assert name.evaluate(message) == ""


def test_reader_is_not_told_that_there_are_none(console: Console, owner: Member) -> None:
    owner.request("PUT", "/observers/all", json={"channel": "app", "types": ["a/*"], "config": {"to": "anna"}})
    reader = owner.server.member(owner.organization, groups=["readers"], user="rita")
    page = console.open(reader, "#/observers")
    page.get_by_text("Only your own observers are listed.").wait_for()
    assert page.get_by_text("No observers yet").count() == 0


def test_new_observer_form_previews_a_real_event(console: Console, owner: Member) -> None:
    publish(owner, *finish(1, "first"), *finish(2, "second", "0"), vocabulary="job")
    page = console.open(owner, "#/observers?new=yes")
    page.get_by_label("Name").fill("night-shift")
    page.get_by_label("Scope").select_option("global")
    page.get_by_label("Channel").select_option("mail")
    page.get_by_label("Types").fill("job/finish/*")
    page.get_by_label("To", exact=True).fill("night@example.org")
    page.get_by_label("From").fill("annals@example.org")
    preview = page.get_by_label("Preview", exact=True)
    preview.get_by_text("would be sent", exact=True).wait_for()
    frame = page.frame_locator(".mail-frame")
    frame.get_by_text("second", exact=True).wait_for()
    page.get_by_label("Filter").fill('event.success == "1"')
    frame.get_by_text("first", exact=True).wait_for()
    page.get_by_label("Filter").fill("event.id == 99")
    preview.get_by_text("the filter does not match the event").wait_for()
    page.get_by_label("Filter").fill("event.success ==")
    preview.get_by_role("alert").wait_for()
    page.get_by_label("Filter").fill("")
    preview.get_by_text("would be sent", exact=True).wait_for()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="night-shift").wait_for()
    saved = owner.get("/observers/night-shift").json()
    assert saved["types"] == [["job", "finish", "*"]]
    assert saved["config"] == {"to": "night@example.org", "from": "annals@example.org"}


def test_mail_preview_keeps_inline_styles(console: Console, owner: Member) -> None:
    publish(owner, *finish(11, "styled"), vocabulary="job")
    config = {"to": "a@example.org", "from": "b@example.org"}
    owner.request("PUT", "/observers/styled", json={"channel": "mail", "types": ["job/finish/*"], "config": config})
    page = console.open(owner, "#/observers/styled")
    cell = page.frame_locator(".mail-frame").get_by_text("Job finished").first
    cell.wait_for()
    eventually(page, lambda: "DejaVu" not in str(cell.evaluate("one => getComputedStyle(one).fontFamily")))
    assert cell.evaluate("one => one.hasAttribute('data-style') || !!one.closest('[data-style]')")


def test_preview_for_a_chosen_event(console: Console, owner: Member) -> None:
    events = publish(owner, *finish(21, "the earlier one"), *finish(22, "the later one"), vocabulary="job")
    owner.request(
        "PUT", "/observers/choosy", json={"channel": "app", "types": ["job/finish/*"], "config": {"to": "anna"}}
    )
    page = console.open(owner, "#/observers/choosy")
    page.locator(".preview-subject").get_by_text("the later one").wait_for()
    place = events[1]["id"]
    page.get_by_label("For the event with this id").fill(f"{place['server']}.{place['session']}.{place['instance']}")
    page.locator(".preview-subject").get_by_text("the earlier one").wait_for()


def test_health_counts_deliveries_and_test_is_sent(console: Console, owner: Member) -> None:
    owner.request(
        "PUT", "/observers/inbox", json={"channel": "app", "types": ["job/finish/*"], "config": {"to": "anna"}}
    )
    page = console.open(owner, "#/observers/inbox")
    page.get_by_text("0 sent").wait_for()
    publish(owner, *finish(31, "told"), vocabulary="job")
    page.get_by_text("1 sent").wait_for()
    page.get_by_role("button", name="Send a test").click()
    page.get_by_role("status").get_by_text("The test was sent").wait_for()
    told = owner.get("/users/anna/inbox").json()["eventSnapshots"]
    assert any(one["subject"].startswith("[Test]") for one in told)
    page.goto(f"{owner.server.url}/#/observers")
    page.get_by_role("link", name="inbox").wait_for()


def test_parked_deliveries_are_listed_and_retried(console: Console, owner: Member) -> None:
    owner.request(
        "PUT", "/observers/broken", json={"channel": "app", "types": ["job/finish/*"], "config": {"to": "bela"}}
    )
    publish(owner, *finish(41, "break"), *finish(42, "break"), vocabulary="job")
    page = console.open(owner, "#/observers/broken")
    page.get_by_text("2 parked").wait_for()
    parked = page.get_by_label("Parked deliveries")
    parked.locator("tbody tr").nth(1).wait_for()
    assert "nothing" in parked.locator(".failure-error").first.inner_text()
    parked.get_by_role("button", name="Retry all").click()
    page.get_by_text("2 deliveries will be retried").wait_for()
    page.get_by_text("2 parked").wait_for()


def test_replay_shows_progress_until_done(console: Console, owner: Member) -> None:
    publish(owner, *(event for n in range(51, 61) for event in finish(n, "again")), vocabulary="job")
    owner.request(
        "PUT", "/observers/late", json={"channel": "app", "types": ["job/finish/*"], "config": {"to": "chen"}}
    )
    page = console.open(owner, "#/observers/late")
    replay = page.get_by_label("Replay", exact=True).get_by_role("button", name="Replay")
    replay.click()
    page.get_by_role("dialog").get_by_text(re.compile(r"Send up to \d+ messages again")).wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_text("Nothing was sent.").wait_for()
    assert owner.get("/observers/late").json()["deliveries"]["sent"] == 0
    replay.click()
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    page.get_by_text("Done.").wait_for()
    assert float(page.locator("progress").evaluate("bar => bar.value")) == 1.0
    eventually(page, lambda: owner.get("/observers/late").json()["deliveries"]["sent"] >= 10)


def test_delete_asks_for_confirmation(console: Console, owner: Member) -> None:
    owner.request("PUT", "/observers/doomed", json={"channel": "app", "types": ["a/*"], "config": {"to": "anna"}})
    page = console.open(owner, "#/observers/doomed")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert owner.get("/observers/doomed").status_code == 200
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="Observers").wait_for()
    assert owner.get("/observers/doomed").status_code == 404


def test_refused_configuration_shows_the_servers_message(console: Console, owner: Member) -> None:
    page = console.open(owner, "#/observers?new=yes")
    page.get_by_label("Name").fill("odd")
    page.get_by_label("Scope").select_option("global")
    page.get_by_label("or job events").fill("nonsense")
    page.get_by_role("button", name="Save").click()
    page.locator(".observer-notice").get_by_text("unknown event 'nonsense'").wait_for()


@pytest.mark.parametrize(
    "configuration",
    [
        {"types": [["a b", "c,d", "*"], ["job"]]},
        {"types": []},
        {"types": [[]]},
        {"types": [[""]]},
        {"types": [["", ""], ["a", ""]]},
        {"types": [[" a "], ["line\nbreak\r"], ["[1]"]]},
        {"events": ""},
        {"events": " create,finish ", "nodes": "", "filter": "event.id\n== 1 "},
        {
            "channel": "mail",
            "config": {
                "from": "a@b.example",
                "to": " a@b.example",
                "title": "",
                "mail_progress": "false",
                "label": [1],
            },
        },
        {"scope": "private", "user": "anna", "config": {"label": "x"}},
        {"when": "failures(2)", "group_by": ["node"], "digest": "10m", "throttle": "1h", "quiet": "22:00-07:00"},
    ],
    ids=json.dumps,
)
def test_unchanged_form_saves_the_same_observer(
    console: Console, member: Member, configuration: dict[str, Any]
) -> None:
    put = {"channel": "app", "config": {"to": "anna"}, **configuration}
    assert member.request("PUT", "/observers/same", json=put).status_code == 201
    before = member.get("/observers/same").json()
    page = console.open(member, "#/observers/same")
    page.get_by_label("Name").wait_for()
    with page.expect_response(lambda response: response.request.method == "PUT") as saved:
        page.get_by_role("button", name="Save").click()
    assert saved.value.status == 200
    after = member.get("/observers/same").json()
    assert {**after, "since": 0} == {**before, "since": 0}


@pytest.mark.parametrize(
    ("types", "shown"),
    [
        ([["a b", "c,d", "*"], ["job"]], "a b/c,d/*\njob"),
        ([], "[]"),
        ([[]], "[[]]"),
        ([[""]], '[[""]]'),
    ],
    ids=["lines", "none", "empty type", "empty subtype"],
)
def test_form_shows_the_patterns_that_it_saves(
    console: Console, member: Member, types: list[list[str]], shown: str
) -> None:
    member.request("PUT", "/observers/shown", json={"channel": "app", "types": types, "config": {"to": "a"}})
    page = console.open(member, "#/observers/shown")
    field = page.get_by_label("Types")
    assert field.input_value() == shown
    field.fill(f"{shown} ")
    with page.expect_response(lambda response: response.request.method == "PUT"):
        page.get_by_role("button", name="Save").click()
    assert member.get("/observers/shown").json()["types"] == types


def test_webhook_form_shows_new_secret_once(console: Console, owner: Member) -> None:
    page = console.open(owner, "#/observers?new=yes")
    page.get_by_label("Name").fill("hook")
    page.get_by_label("Scope").select_option("global")
    page.get_by_label("Channel").select_option("webhook")
    page.get_by_label("URL", exact=True).fill("https://example.org/hooks")
    page.get_by_role("button", name="Save").click()
    secret = page.get_by_label("The secret", exact=True)
    secret.wait_for()
    assert secret.inner_text().startswith("whsec_")
    page.get_by_role("link", name="Continue").click()
    page.get_by_role("heading", name="hook").wait_for()
    field = page.get_by_label("Secret", exact=True)
    field.wait_for()
    assert field.input_value() == "********"
    with page.expect_response(lambda response: response.request.method == "PUT"):
        page.get_by_role("button", name="Save").click()
    assert page.get_by_label("The secret", exact=True).count() == 0
    assert owner.get("/observers/hook").json()["config"] == {"url": "https://example.org/hooks", "secret": "********"}


def test_apprise_form_edits_list_of_urls(console: Console, owner: Member) -> None:
    config = {"urls": ["discord://1234567890/token", "ntfys://topic"]}
    owner.request("PUT", "/observers/many", json={"channel": "apprise", "types": ["a/*"], "config": config})
    page = console.open(owner, "#/observers/many")
    field = page.get_by_label("Apprise URLs, one per line")
    field.wait_for()
    assert field.input_value() == "discord://********/1\nntfys://********/2"
    field.fill("ntfys://********/2\njsons://example.org/a\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved", exact=True).wait_for()
    urls = owner.get("/observers/many").json()["config"]["urls"]
    assert urls == ["ntfys://********/1", "jsons://********/2"]
