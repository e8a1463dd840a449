"""No route gives access to another organization, or to an action that the caller's groups do not allow."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from app import app
from tests.attacks.two_organizations import (
    SECRET,
    Json,
    TwoOrganizations,
    populate,
    put_observer,
    two_organizations,
    visible_text,
)
from tests.conformance.push.push_client import SSE
from tests.serving import Member

WATCH = {"channel": "app", "config": {"to": "anna", "note": "plain"}}
SILENCE = {"type": "backup", "until": "2099-01-01T00:00:00Z"}
EXPECTATION = {"type": "backup", "every": "1h", "description": "plain"}
FOR_ALL = 200, 200, 200, 200
FOR_READERS = 403, 200, 403, 200
FOR_PUBLISHERS = 403, 403, 201, 201
FOR_ADMINS = 403, 403, 403, 200
HIDDEN_FROM_READERS = 403, 404, 403, 200
"""For admins. Readers get 404, so that they do not learn whether the observer exists."""


@dataclass(frozen=True)
class Route:
    """A request to a route, and its statuses in the caller's own organization.

    The statuses are those of callers without groups, of readers, of publishers and of admins.
    """

    target: str
    statuses: tuple[int, int, int, int]
    body: Json | None = None
    headers: dict[str, str] = field(default_factory=dict)


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/"): Route("/", FOR_ALL),
    ("GET", "/console/{path+}"): Route("/console/index.html", FOR_ALL),
    ("GET", "/health"): Route("/health", FOR_ALL),
    ("GET", "/openapi.json"): Route("/openapi.json", FOR_ALL),
    ("GET", "/asyncapi.json"): Route("/asyncapi.json", FOR_ALL),
    ("POST", "/sign-in"): Route("/sign-in", (403, 403, 403, 403), {"code": "guessed"}),
    ("GET", "/reports/{name}"): Route("/reports/report?ticket=a.b.c", (403, 403, 403, 403)),
    ("GET", "/me"): Route("/me", FOR_ALL),
    ("GET", "/users/{user}/inbox"): Route("/users/anna/inbox", FOR_ALL),
    ("POST", "/events"): Route("/events", FOR_PUBLISHERS, {"events": [{"type": ["a"]}]}),
    ("GET", "/events"): Route("/events", FOR_READERS),
    ("GET", "/events/latest"): Route("/events/latest", FOR_READERS),
    ("POST", "/events/latest"): Route("/events/latest", FOR_READERS, {}),
    ("POST", "/events/query"): Route("/events/query", FOR_READERS, {}),
    ("GET", "/events/timeseries"): Route("/events/timeseries", FOR_READERS),
    ("POST", "/events/timeseries"): Route("/events/timeseries", FOR_READERS, {}),
    ("GET", "/events/server"): Route("/events/server", FOR_READERS),
    ("POST", "/events/server"): Route("/events/server", FOR_READERS, {}),
    ("POST", "/events/{vocabulary}"): Route("/events/scheduler", FOR_PUBLISHERS, {"TYPE": "SchedulerClosed"}),
    ("GET", "/jobs/{number}"): Route("/jobs/1", FOR_READERS),
    ("GET", "/jobsets/{number}"): Route("/jobsets/1", FOR_READERS),
    ("GET", "/objects/{collection}"): Route("/objects/job", FOR_READERS),
    ("GET", "/objects/{collection}/{path+}"): Route("/objects/pushJob/p1", FOR_READERS),
    ("GET", "/jobscheduler/master/api/{collection}"): Route("/jobscheduler/master/api/order", FOR_READERS),
    ("POST", "/jobscheduler/master/api/{collection}"): Route(
        "/jobscheduler/master/api/order", FOR_READERS, {"path": "/"}
    ),
    ("GET", "/jobscheduler/master/api/{collection}/{path+}"): Route(
        "/jobscheduler/master/api/order/chain,1", FOR_READERS
    ),
    ("GET", "/observer-presets"): Route("/observer-presets", FOR_READERS),
    ("GET", "/observers"): Route("/observers", FOR_READERS),
    ("GET", "/observers/{name}"): Route("/observers/watch", HIDDEN_FROM_READERS),
    ("PUT", "/observers/{name}"): Route("/observers/watch", FOR_ADMINS, WATCH),
    ("DELETE", "/observers/{name}"): Route("/observers/watch", HIDDEN_FROM_READERS),
    ("GET", "/observers/{name}/failures"): Route("/observers/watch/failures", HIDDEN_FROM_READERS),
    ("POST", "/observers/{name}/preview"): Route("/observers/watch/preview", FOR_ADMINS, {"configuration": WATCH}),
    ("POST", "/observers/{name}/replay"): Route("/observers/watch/replay", HIDDEN_FROM_READERS, {"after": 0}),
    ("POST", "/observers/{name}/retry"): Route("/observers/watch/retry", HIDDEN_FROM_READERS),
    ("POST", "/observers/{name}/test"): Route("/observers/watch/test", HIDDEN_FROM_READERS),
    ("PUT", "/organizations/{org}"): Route("/organizations/{org}", FOR_ADMINS),
    ("GET", "/organizations/{org}/pushy/jobs"): Route("/organizations/{org}/pushy/jobs", FOR_READERS),
    ("GET", "/organizations/{org}/pushy/jobs/{job}"): Route("/organizations/{org}/pushy/jobs/p1", FOR_READERS),
    ("GET", "/organizations/{org}/pushy/job_status_feed"): Route(
        "/organizations/{org}/pushy/job_status_feed", FOR_READERS, headers=SSE
    ),
    ("GET", "/organizations/{org}/pushy/job_status_feed/{job}"): Route(
        "/organizations/{org}/pushy/job_status_feed/p1", FOR_READERS, headers=SSE
    ),
    ("GET", "/reports"): Route("/reports", FOR_READERS),
    ("GET", "/ping-keys"): Route("/ping-keys", (403, 403, 403, 200)),
    ("PUT", "/ping-keys/{name}"): Route("/ping-keys/-", (403, 403, 403, 400)),
    ("DELETE", "/ping-keys/{name}"): Route("/ping-keys/unknown", (403, 403, 403, 404)),
    **{
        (method, f"/ping/{{key}}/{{name}}{end}"): Route(f"/ping/victim.guessed/backup{suffix}", (404, 404, 404, 404))
        for method in ("GET", "HEAD", "POST")
        for end, suffix in (("", "?create=1"), ("/{signal}", "/start?create=1"))
    },
    ("GET", "/job-types"): Route("/job-types", FOR_READERS),
    ("GET", "/job-types/{job_type}"): Route("/job-types/backup", FOR_READERS),
    ("GET", "/observers/{name}/deliveries"): Route("/observers/watch/deliveries", HIDDEN_FROM_READERS),
    ("GET", "/deliveries"): Route("/deliveries?event=1.1.1", (403, 404, 403, 404)),
    ("POST", "/observers/{name}/snooze"): Route("/observers/watch/snooze", HIDDEN_FROM_READERS, {"until": None}),
    ("GET", "/silences"): Route("/silences", FOR_READERS),
    ("POST", "/silences"): Route("/silences", FOR_PUBLISHERS, SILENCE),
    ("DELETE", "/silences/{silence}"): Route("/silences/1", (403, 403, 404, 404)),
    ("GET", "/acknowledgements"): Route("/acknowledgements", FOR_READERS),
    ("POST", "/acknowledgements"): Route("/acknowledgements", FOR_PUBLISHERS, {"type": "backup"}),
    ("GET", "/expectations"): Route("/expectations", FOR_READERS),
    ("GET", "/expectations/{name}"): Route("/expectations/watch", FOR_READERS),
    ("PUT", "/expectations/{name}"): Route("/expectations/watch", FOR_ADMINS, EXPECTATION),
    ("DELETE", "/expectations/{name}"): Route("/expectations/unknown", (403, 403, 403, 404)),
    ("GET", "/users/{user}/inbox/unread"): Route("/users/anna/inbox/unread", FOR_ALL),
    ("POST", "/users/{user}/inbox/read"): Route("/users/anna/inbox/read", FOR_ALL, {"eventId": 0}),
    ("POST", "/reports/{name}/link"): Route("/reports/report/link", FOR_READERS),
    ("GET", "/system"): Route("/system", FOR_READERS),
}
PUBLIC = [name for name in ROUTES if app.routes[name[1]][name[0]].authorizer is None]
AUTHENTICATED = [name for name in ROUTES if name not in PUBLIC]
IN_PATH = [name for name in AUTHENTICATED if "{org}" in name[1]]
HEADER_IGNORED = [("GET", "/me"), *IN_PATH]
"""Routes that ignore X-Organization: they concern only the caller, or the organization in the path."""
READING = [name for name in AUTHENTICATED if ROUTES[name].statuses in (FOR_READERS, FOR_ALL) and name[0] == "GET"]

NO_GROUP, READER, PUBLISHER, ADMIN = range(4)
GROUPS: dict[str, int] = {
    **dict.fromkeys(["", "others", "Admins", "ADMINS", "admin", "admins ", "admins,readers", "*", "?"], NO_GROUP),
    **dict.fromkeys(["readers", "pushy_job_readers"], READER),
    **dict.fromkeys(["publishers", "pushy_job_writers"], PUBLISHER),
    "admins": ADMIN,
}


@pytest.fixture(scope="module", name="both")
def fixture_both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoOrganizations]:
    """Both organizations. No test may change the data of the victim."""
    with two_organizations(tmp_path_factory.mktemp("isolation")) as both:
        before = visible_data(both.victim)
        yield both
        assert visible_data(both.victim) == before


def visible_data(member: Member) -> list[str]:
    paths = ("/events", "/observers", "/observers/broken/failures", "/users/anna/inbox", "/reports")
    return [member.get(path).text for path in paths]


def send(member: Member, name: tuple[str, str], org: str, query: str = "", **headers: str) -> tuple[int, str]:
    """The status and the text of the response. Of streams only the first piece is read."""
    route = ROUTES[name]
    target = route.target.format(org=org)
    target += f"{'&' if '?' in target else '?'}{query}" if query else ""
    request = member.server.client.build_request(
        name[0], target, json=route.body, headers={**member.headers, **route.headers, **headers}
    )
    response = member.server.client.send(request, stream="feed" in target)
    try:
        return response.status_code, visible_text(response)
    finally:
        response.close()


def test_every_route_is_in_the_table() -> None:
    assert {(method, path) for path, methods in app.routes.items() for method in methods} == ROUTES.keys()


@pytest.mark.parametrize("name", ROUTES, ids=" ".join)
def test_route_allows_only_its_groups(name: tuple[str, str], both: TwoOrganizations) -> None:
    statuses, texts = {}, ""
    for group in GROUPS:
        put_observer(both.attacker, "watch", WATCH)
        statuses[group], text = send(both.attacker_with(*filter(None, [group])), name, "attacker")
        texts += text
    assert statuses == {group: ROUTES[name].statuses[role] for group, role in GROUPS.items()}
    assert SECRET not in texts


@pytest.mark.parametrize("name", ROUTES, ids=" ".join)
def test_route_refuses_access_to_other_organization(name: tuple[str, str], both: TwoOrganizations) -> None:
    """Without a token, and with the victim's name in a header, in the path and in the query."""
    for variant, allowed, (status, text) in foreign_requests(name, both):
        assert (status in allowed, SECRET in text) == (True, False), f"{variant}: {status}"


def foreign_requests(name: tuple[str, str], both: TwoOrganizations) -> Iterator[tuple[str, set[int], tuple[int, str]]]:
    """Requests for the victim's data: how the victim is named, the allowed statuses, and the response."""
    route, in_own = ROUTES[name], ROUTES[name].statuses[ADMIN]
    target = route.target.format(org="victim")
    response = both.server.client.request(name[0], target, json=route.body, headers=route.headers)
    expected = route.statuses[NO_GROUP] if name in PUBLIC else 401
    yield "no token", {expected}, (response.status_code, visible_text(response))
    if name in PUBLIC:
        return
    put_observer(both.attacker, "watch", WATCH)
    in_header = send(both.attacker, name, "attacker", **{"X-Organization": "victim"})
    yield "header", {in_own if name in HEADER_IGNORED else 403}, in_header
    for parameter in ("org", "organization", "X-Organization", "x-organization"):
        put_observer(both.attacker, "watch", WATCH)
        yield f"query {parameter}", {400, in_own}, send(both.attacker, name, "attacker", f"{parameter}=victim")
    if name in IN_PATH:
        for path in ("victim", "%76ictim", "vict%69m", "%76%69%63%74%69%6d"):
            yield f"path {path}", {403}, send(both.attacker, name, path)
            yield f"path {path} and header", {403}, send(both.attacker, name, path, **{"X-Organization": "attacker"})


@pytest.mark.parametrize(
    "header",
    ["VICTIM", "Victim", "victim,attacker", "attacker,victim", "victim/", "*", "vict%69m", "./victim", "victim#"],
)
def test_similar_organization_name_gives_no_access(header: str, both: TwoOrganizations) -> None:
    namesake = both.server.member(header)
    for member, headers in (
        (both.attacker, {"X-Organization": header}),
        (namesake, {}),
        (namesake, {"X-Organization": "victim"}),
    ):
        response = member.get("/events", headers=headers)
        assert (response.status_code in (403, 404), SECRET in visible_text(response)) == (True, False)


def test_two_organization_headers_are_refused(both: TwoOrganizations) -> None:
    for names in (("attacker", "victim"), ("victim", "attacker")):
        headers = [*both.attacker.headers.items(), *(("X-Organization", name) for name in names)]
        response = both.server.client.get("/events", headers=headers)
        assert (response.status_code in (400, 403), SECRET in visible_text(response)) == (True, False)


def test_activity_of_others_is_not_visible(both: TwoOrganizations) -> None:
    """Counts, ids and positions do not depend on other organizations."""
    quiet, busy = both.server.organization(), both.server.organization()
    before = [_view(quiet, name) for name in READING]
    populate(busy, SECRET)
    assert [_view(quiet, name) for name in READING] == before


def _view(member: Member, name: tuple[str, str]) -> tuple[int, str]:
    target = ROUTES[name].target.format(org=member.organization)
    if target.endswith("job_status_feed"):
        return send(member, name, member.organization)[0], ""
    return send(member, name, member.organization)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_server_query_reads_only_own_log(method: str, both: TwoOrganizations) -> None:
    """Not another organization's log, the directory, a configuration log or an inbox."""
    own, other = both.attacker_log, both.victim_log
    for number in (
        other,
        0,
        -1,
        *(-2 * log - offset for log in (own, other) for offset in (0, 1)),
        10**9,
        -(10**9),
        2**63,
    ):
        for position in (None, f"{number}.0.0", f"{number}.1.1"):
            query = {"server": number, **({} if position is None else {"lastEventId": position})}
            options: dict[str, Any] = {"params": query} if method == "GET" else {"json": query}
            response = both.attacker.request(method, "/events/server", **options)
            # Numbers and positions that no log can have are invalid. All others look like an empty log.
            assert response.status_code == 400 or response.json()["events"] == [], number
            assert SECRET not in response.text


@pytest.mark.parametrize("path", ["/events/server", "/events/timeseries"])
def test_last_event_id_gives_no_access_to_other_log(path: str, both: TwoOrganizations) -> None:
    for position in (f"{both.victim_log}.1.1", f"{both.victim_log}.0.0", "0.1.1", f"-{2 * both.attacker_log}.1.1"):
        response = both.attacker.get(path, params={"lastEventId": position})
        assert SECRET not in response.text
        assert response.status_code == 400 or response.json()["events"] == []


def test_queries_span_only_organizations_of_the_token(both: TwoOrganizations) -> None:
    member = both.server.member("attacker", "VICTIM", "vict*", "victim ", "nobody", "")
    for path in ("/events/latest", "/events/timeseries"):
        for response in (member.get(path), member.request("POST", path, json={})):
            servers = {event["id"]["server"] for event in response.json()["events"]}
            assert (servers, SECRET in response.text) == ({both.attacker_log}, False)


def test_position_gives_no_access_to_other_log(both: TwoOrganizations) -> None:
    events = both.victim.get("/events").json()["eventSnapshots"]
    positions = [str(event["eventId"]) for event in (events[0], events[-1])]
    feed = {**SSE, "Accept": "text/event-stream"}
    for position in positions:
        for path in ("/events?timeout=0", f"/events?after={position}&timeout=0"):
            response = both.attacker.get(path, headers={**feed, "Last-Event-ID": position})
            assert (response.status_code, SECRET in response.text) == (200, False)
        push_feed = send(
            both.attacker,
            ("GET", "/organizations/{org}/pushy/job_status_feed"),
            "attacker",
            **{"Last-Event-ID": position},
        )
        assert SECRET not in push_feed[1]


def test_event_of_other_organization_is_not_previewed(both: TwoOrganizations) -> None:
    foreign = both.victim.get("/events").json()["eventSnapshots"][0]["id"]
    put_observer(both.attacker, "watch", WATCH)
    for body in (
        {"configuration": WATCH, "event": foreign},
        {"configuration": WATCH, "event": {**foreign, "server": 0}},
    ):
        response = both.attacker.request("POST", "/observers/new/preview", json=body)
        assert (response.status_code, SECRET in response.text) == (404, False)
    response = both.attacker.request("POST", "/observers/watch/test", json={"event": foreign})
    assert (response.status_code, SECRET in response.text) == (404, False)


def test_deliveries_of_other_organization_are_inaccessible(both: TwoOrganizations) -> None:
    """Both organizations have an observer with this name and failed deliveries."""
    failed = [failure["id"] for failure in both.victim.get("/observers/broken/failures").json()["failures"]]
    assert failed
    before = both.attacker.get("/observers/broken").json()["deliveries"]
    assert both.attacker.request("POST", "/observers/broken/retry", json={"ids": failed}).json() == {"retried": 0}
    for after in ("", failed[0][:3], failed[0]):
        assert SECRET not in both.attacker.get("/observers/broken/failures", params={"after": after}).text
    assert both.attacker.get("/observers/broken").json()["deliveries"] == before


def test_replay_reads_only_own_log(both: TwoOrganizations) -> None:
    put_observer(both.attacker, "replayed", {"channel": "app", "config": {"to": "eve"}})
    response = both.attacker.request("POST", "/observers/replayed/replay", json={"after": 0})
    assert response.status_code == 200
    inbox = both.attacker_with("readers", user="eve").get("/users/eve/inbox?timeout=10s").text
    assert ("NonEmpty" in inbox, SECRET in inbox) == (True, False)


def test_idempotency_key_of_other_organization_is_unrelated(both: TwoOrganizations) -> None:
    key = {"Idempotency-Key": "the same"}
    secret = {"events": [{"type": ["secret", SECRET]}]}
    owner = both.server.organization()
    first, repeated = (owner.post(secret, **key) for _ in range(2))
    others = both.attacker.post({"events": [{"type": ["a"]}]}, **key)
    assert [response.status_code for response in (first, repeated, others)] == [201, 200, 201]
    assert SECRET not in visible_text(others)


def test_append_condition_reads_only_own_log(both: TwoOrganizations) -> None:
    """Otherwise it would reveal whether another organization has such an event."""
    condition = {"failIfEventsMatch": {"types": [["secret", SECRET]], "keys": [f"/{SECRET}"]}}
    response = both.attacker.post({"events": [{"type": ["a"]}], "condition": condition})
    assert response.status_code == 201


@pytest.mark.parametrize("user", ["*", "?", "anna/..", "../anna", "ANNA", "anna\0", "", "an%6Ea"])
def test_inbox_requires_exact_user_name(user: str, both: TwoOrganizations) -> None:
    stranger = both.server.member("attacker", groups=["readers"], user=user or "nobody")
    foreign = stranger.get("/users/anna/inbox")
    assert (foreign.status_code, "eventSnapshots" in foreign.text) == (403, False)
    own_inbox = stranger.get(f"/users/{quote(stranger.user, safe='')}/inbox")
    assert (own_inbox.status_code, "eventSnapshots" in own_inbox.text) == (200, False)


def test_admin_reads_only_inboxes_of_own_organization(both: TwoOrganizations) -> None:
    inbox = both.attacker.get("/users/anna/inbox").text
    assert ("plain" in inbox, SECRET in inbox) == (True, False)
    assert both.attacker.get(f"/users/{SECRET}/inbox").json()["TYPE"] == "Empty"


def test_report_link_opens_only_its_report(both: TwoOrganizations) -> None:
    link = both.attacker.request("POST", "/reports/report/link").json()["link"]
    name, _, ticket = link.partition("?")
    client = both.server.client
    assert "plain" in client.get(f"/{link}").text
    for number in (both.victim_log, f"1-{both.victim_log}"):
        for path in (f"/{name}-{number}?{ticket}", f"/reports/..%2freports%2freport-{number}.html?{ticket}"):
            response = client.get(path)
            assert (response.status_code in (403, 404), SECRET in response.text) == (True, False)
    for suffix in (f"&server={both.victim_log}", "&org=victim"):
        assert SECRET not in client.get(f"/{link}{suffix}", headers={"X-Organization": "victim"}).text


def test_new_organization_is_accessible_only_with_its_token(both: TwoOrganizations) -> None:
    name = "made-between"
    owner, early = both.server.member(name), both.server.member("attacker", name)
    assert owner.get("/events").status_code == 404
    assert both.attacker.request("PUT", f"/organizations/{name}").status_code == 403
    owner.create()
    owner.publish("a")
    assert both.attacker.get("/events", headers={"X-Organization": name}).status_code == 403
    assert early.get("/events", headers={"X-Organization": name}).status_code == 200
