"""Every route, every group, every way to name somebody else's organization: nobody sees or does what is not theirs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from app import app
from tests.attacks.neighbours import SECRET, Json, Neighbours, furnish, neighbours, put, said
from tests.conformance.push.push_client import SSE
from tests.serving import Member

WATCH = {"channel": "app", "config": {"to": "anna", "note": "plain"}}
TO_ALL = 200, 200, 200, 200
TO_READERS = 403, 200, 403, 200
TO_PUBLISHERS = 403, 403, 201, 201
TO_ADMINS = 403, 403, 403, 200
TO_ADMINS_ALONE = 403, 404, 403, 200
"""Others are not even told that it is there."""


@dataclass(frozen=True)
class Route:
    """A request to a route, and how it is answered in one's own organization: nobody's, a reader's, a publisher's, an
    admin's."""

    target: str
    answers: tuple[int, int, int, int]
    body: Json | None = None
    headers: dict[str, str] = field(default_factory=dict)


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/"): Route("/", TO_ALL),
    ("GET", "/console/{path+}"): Route("/console/index.html", TO_ALL),
    ("GET", "/health"): Route("/health", TO_ALL),
    ("GET", "/openapi.json"): Route("/openapi.json", TO_ALL),
    ("GET", "/asyncapi.json"): Route("/asyncapi.json", TO_ALL),
    ("POST", "/sign-in"): Route("/sign-in", (403, 403, 403, 403), {"code": "guessed"}),
    ("GET", "/reports/{name}"): Route("/reports/report?ticket=a.b.c", (403, 403, 403, 403)),
    ("GET", "/me"): Route("/me", TO_ALL),
    ("GET", "/users/{user}/inbox"): Route("/users/anna/inbox", TO_ALL),
    ("POST", "/events"): Route("/events", TO_PUBLISHERS, {"events": [{"type": ["a"]}]}),
    ("GET", "/events"): Route("/events", TO_READERS),
    ("GET", "/events/latest"): Route("/events/latest", TO_READERS),
    ("POST", "/events/latest"): Route("/events/latest", TO_READERS, {}),
    ("GET", "/events/timeseries"): Route("/events/timeseries", TO_READERS),
    ("POST", "/events/timeseries"): Route("/events/timeseries", TO_READERS, {}),
    ("GET", "/events/server"): Route("/events/server", TO_READERS),
    ("POST", "/events/server"): Route("/events/server", TO_READERS, {}),
    ("POST", "/events/{vocabulary}"): Route("/events/scheduler", TO_PUBLISHERS, {"TYPE": "SchedulerClosed"}),
    ("GET", "/jobs/{number}"): Route("/jobs/1", TO_READERS),
    ("GET", "/jobsets/{number}"): Route("/jobsets/1", TO_READERS),
    ("GET", "/objects/{collection}"): Route("/objects/job", TO_READERS),
    ("GET", "/objects/{collection}/{path+}"): Route("/objects/pushJob/p1", TO_READERS),
    ("GET", "/jobscheduler/master/api/{collection}"): Route("/jobscheduler/master/api/order", TO_READERS),
    ("POST", "/jobscheduler/master/api/{collection}"): Route(
        "/jobscheduler/master/api/order", TO_READERS, {"path": "/"}
    ),
    ("GET", "/jobscheduler/master/api/{collection}/{path+}"): Route(
        "/jobscheduler/master/api/order/chain,1", TO_READERS
    ),
    ("GET", "/observers"): Route("/observers", TO_READERS),
    ("GET", "/observers/{name}"): Route("/observers/watch", TO_ADMINS_ALONE),
    ("PUT", "/observers/{name}"): Route("/observers/watch", TO_ADMINS, WATCH),
    ("DELETE", "/observers/{name}"): Route("/observers/watch", TO_ADMINS_ALONE),
    ("GET", "/observers/{name}/failures"): Route("/observers/watch/failures", TO_ADMINS_ALONE),
    ("POST", "/observers/{name}/preview"): Route("/observers/watch/preview", TO_ADMINS, {"configuration": WATCH}),
    ("POST", "/observers/{name}/replay"): Route("/observers/watch/replay", TO_ADMINS_ALONE, {"after": 0}),
    ("POST", "/observers/{name}/retry"): Route("/observers/watch/retry", TO_ADMINS_ALONE),
    ("POST", "/observers/{name}/test"): Route("/observers/watch/test", TO_ADMINS_ALONE),
    ("PUT", "/organizations/{org}"): Route("/organizations/{org}", TO_ADMINS),
    ("GET", "/organizations/{org}/pushy/jobs"): Route("/organizations/{org}/pushy/jobs", TO_READERS),
    ("GET", "/organizations/{org}/pushy/jobs/{job}"): Route("/organizations/{org}/pushy/jobs/p1", TO_READERS),
    ("GET", "/organizations/{org}/pushy/job_status_feed"): Route(
        "/organizations/{org}/pushy/job_status_feed", TO_READERS, headers=SSE
    ),
    ("GET", "/organizations/{org}/pushy/job_status_feed/{job}"): Route(
        "/organizations/{org}/pushy/job_status_feed/p1", TO_READERS, headers=SSE
    ),
    ("GET", "/reports"): Route("/reports", TO_READERS),
    ("POST", "/reports/{name}/link"): Route("/reports/report/link", TO_READERS),
    ("GET", "/system"): Route("/system", TO_READERS),
}
OPEN = [name for name in ROUTES if app.routes[name[1]][name[0]].authorizer is None]
"""Routes for anybody."""
CLOSED = [name for name in ROUTES if name not in OPEN]
IN_PATH = [name for name in CLOSED if "{org}" in name[1]]
INDIFFERENT = [("GET", "/me"), *IN_PATH]
"""Routes that do not look at the header: about the caller alone, or about the organization in the path."""
READING = [name for name in CLOSED if ROUTES[name].answers in (TO_READERS, TO_ALL) and name[0] == "GET"]

NOBODY, READER, PUBLISHER, ADMIN = range(4)
GROUPS: dict[str, int] = {
    **dict.fromkeys(["", "others", "Admins", "ADMINS", "admin", "admins ", "admins,readers", "*", "?"], NOBODY),
    **dict.fromkeys(["readers", "pushy_job_readers"], READER),
    **dict.fromkeys(["publishers", "pushy_job_writers"], PUBLISHER),
    "admins": ADMIN,
}


@pytest.fixture(scope="module", name="both")
def both_neighbours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbours]:
    """Whatever the thief tries: in the end the victim has what it had, and nothing more."""
    with neighbours(tmp_path_factory.mktemp("isolation")) as found:
        before = belongings(found.victim)
        yield found
        assert belongings(found.victim) == before


def belongings(member: Member) -> list[str]:
    paths = ("/events", "/observers", "/observers/broken/failures", "/users/anna/inbox", "/reports")
    return [member.get(path).text for path in paths]


def asked(member: Member, name: tuple[str, str], org: str, query: str = "", **headers: str) -> tuple[int, str]:
    """The status of the answer, and what it says; streams are left after their first piece."""
    route = ROUTES[name]
    target = route.target.format(org=org)
    target += f"{'&' if '?' in target else '?'}{query}" if query else ""
    request = member.server.client.build_request(
        name[0], target, json=route.body, headers={**member.headers, **route.headers, **headers}
    )
    answer = member.server.client.send(request, stream="feed" in target)
    try:
        return answer.status_code, said(answer)
    finally:
        answer.close()


def test_every_route_has_its_place_here() -> None:
    assert {(method, path) for path, methods in app.routes.items() for method in methods} == ROUTES.keys()


@pytest.mark.parametrize("name", ROUTES, ids=" ".join)
def test_a_route_is_for_its_groups_and_tells_them_of_their_own_organization(
    name: tuple[str, str], both: Neighbours
) -> None:
    found, told = {}, ""
    for group in GROUPS:
        put(both.thief, "watch", WATCH)
        found[group], text = asked(both.guise(*filter(None, [group])), name, "thief")
        told += text
    assert found == {group: ROUTES[name].answers[role] for group, role in GROUPS.items()}
    assert SECRET not in told


@pytest.mark.parametrize("name", ROUTES, ids=" ".join)
def test_without_a_token_there_is_nothing_but_what_is_for_anybody(name: tuple[str, str], both: Neighbours) -> None:
    route = ROUTES[name]
    answer = both.server.client.request(
        name[0], route.target.format(org="victim"), json=route.body, headers=route.headers
    )
    assert answer.status_code == (route.answers[NOBODY] if name in OPEN else 401)
    assert SECRET not in said(answer)


@pytest.mark.parametrize("name", CLOSED, ids=" ".join)
def test_no_header_opens_another_organization(name: tuple[str, str], both: Neighbours) -> None:
    put(both.thief, "watch", WATCH)
    status, told = asked(both.thief, name, "thief", **{"X-Organization": "victim"})
    assert status == (ROUTES[name].answers[ADMIN] if name in INDIFFERENT else 403)
    assert SECRET not in told


@pytest.mark.parametrize("name", IN_PATH, ids=" ".join)
@pytest.mark.parametrize("path", ["victim", "%76ictim", "vict%69m", "%76%69%63%74%69%6d"])
def test_no_path_opens_another_organization(name: tuple[str, str], path: str, both: Neighbours) -> None:
    for headers in ({}, {"X-Organization": "thief"}):
        status, told = asked(both.thief, name, path, **headers)
        assert (status, SECRET in told) == (403, False)


@pytest.mark.parametrize("name", CLOSED, ids=" ".join)
def test_no_query_opens_another_organization(name: tuple[str, str], both: Neighbours) -> None:
    """What is asked for in the query is refused, or means nothing."""
    for word in ("org", "organization", "X-Organization", "x-organization"):
        put(both.thief, "watch", WATCH)
        status, told = asked(both.thief, name, "thief", f"{word}=victim")
        assert (status in (400, ROUTES[name].answers[ADMIN]), SECRET in told) == (True, False)


@pytest.mark.parametrize(
    "header",
    ["VICTIM", "Victim", "victim,thief", "thief,victim", "victim/", "*", "vict%69m", "./victim", "victim#"],
)
def test_an_organization_is_not_opened_by_what_looks_like_its_name(header: str, both: Neighbours) -> None:
    namesake = both.server.member(header)
    for member, named in (
        (both.thief, {"X-Organization": header}),
        (namesake, {}),
        (namesake, {"X-Organization": "victim"}),
    ):
        answer = member.get("/events", headers=named)
        assert (answer.status_code in (403, 404), SECRET in said(answer)) == (True, False)


def test_of_two_headers_that_name_organizations_the_foreign_one_is_not_taken(both: Neighbours) -> None:
    for names in (("thief", "victim"), ("victim", "thief")):
        headers = [*both.thief.headers.items(), *(("X-Organization", name) for name in names)]
        answer = both.server.client.get("/events", headers=headers)
        assert (answer.status_code in (400, 403), SECRET in said(answer)) == (True, False)


def test_what_others_do_changes_nothing_of_what_one_sees(both: Neighbours) -> None:
    """No count, no number, no position betrays what happens next door."""
    quiet, busy = both.server.organization(), both.server.organization()
    before = [_seen(quiet, name) for name in READING]
    furnish(busy, SECRET)
    assert [_seen(quiet, name) for name in READING] == before


def _seen(member: Member, name: tuple[str, str]) -> tuple[int, str]:
    target = ROUTES[name].target.format(org=member.organization)
    if target.endswith("job_status_feed"):
        return asked(member, name, member.organization)[0], ""
    return asked(member, name, member.organization)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_log_is_read_by_its_number_but_ones_own(method: str, both: Neighbours) -> None:
    """Neither a neighbour's, nor the directory of organizations, nor anybody's configuration or inbox."""
    own, other = both.thiefs_log, both.victims_log
    for number in (other, 0, -1, *(-2 * log - more for log in (own, other) for more in (0, 1)), 10**9, -(10**9), 2**63):
        for position in (None, f"{number}.0.0", f"{number}.1.1"):
            wanted = {"server": number, **({} if position is None else {"lastEventId": position})}
            options: dict[str, Any] = {"params": wanted} if method == "GET" else {"json": wanted}
            answer = both.thief.ask(method, "/events/server", **options)
            assert (answer.status_code, SECRET in answer.text) == (400, False)


@pytest.mark.parametrize("path", ["/events/server", "/events/timeseries"])
def test_no_log_is_read_by_the_id_of_an_event_in_it(path: str, both: Neighbours) -> None:
    for position in (f"{both.victims_log}.1.1", f"{both.victims_log}.0.0", "0.1.1", f"-{2 * both.thiefs_log}.1.1"):
        answer = both.thief.get(path, params={"lastEventId": position})
        assert SECRET not in answer.text
        assert answer.status_code == 400 or answer.json()["events"] == []


def test_queries_that_span_organizations_span_those_of_the_token(both: Neighbours) -> None:
    member = both.server.member("thief", "VICTIM", "vict*", "victim ", "nobody", "")
    for path in ("/events/latest", "/events/timeseries"):
        for answer in (member.get(path), member.ask("POST", path, json={})):
            servers = {event["id"]["server"] for event in answer.json()["events"]}
            assert (servers, SECRET in answer.text) == ({both.thiefs_log}, False)


def test_a_position_in_anothers_log_is_no_key_to_it(both: Neighbours) -> None:
    events = both.victim.get("/events").json()["eventSnapshots"]
    positions = [str(event["eventId"]) for event in (events[0], events[-1])]
    feed = {**SSE, "Accept": "text/event-stream"}
    for position in positions:
        for path in ("/events?timeout=0", f"/events?after={position}&timeout=0"):
            answer = both.thief.get(path, headers={**feed, "Last-Event-ID": position})
            assert (answer.status_code, SECRET in answer.text) == (200, False)
        pushed = asked(
            both.thief, ("GET", "/organizations/{org}/pushy/job_status_feed"), "thief", **{"Last-Event-ID": position}
        )
        assert SECRET not in pushed[1]


def test_anothers_event_is_neither_previewed_nor_told(both: Neighbours) -> None:
    foreign = both.victim.get("/events").json()["eventSnapshots"][0]["id"]
    put(both.thief, "watch", WATCH)
    for body in (
        {"configuration": WATCH, "event": foreign},
        {"configuration": WATCH, "event": {**foreign, "server": 0}},
    ):
        answer = both.thief.ask("POST", "/observers/new/preview", json=body)
        assert (answer.status_code, SECRET in answer.text) == (404, False)
    answer = both.thief.ask("POST", "/observers/watch/test", json={"event": foreign})
    assert (answer.status_code, SECRET in answer.text) == (404, False)


def test_anothers_deliveries_are_neither_counted_listed_nor_retried(both: Neighbours) -> None:
    """Though an observer of the same name has failed there."""
    failed = [one["id"] for one in both.victim.get("/observers/broken/failures").json()["failures"]]
    assert failed
    before = both.thief.get("/observers/broken").json()["deliveries"]
    assert both.thief.ask("POST", "/observers/broken/retry", json={"ids": failed}).json() == {"retried": 0}
    for after in ("", failed[0][:3], failed[0]):
        assert SECRET not in both.thief.get("/observers/broken/failures", params={"after": after}).text
    assert both.thief.get("/observers/broken").json()["deliveries"] == before


def test_a_replay_tells_of_ones_own_log_alone(both: Neighbours) -> None:
    put(both.thief, "replayed", {"channel": "app", "config": {"to": "eve"}})
    answer = both.thief.ask("POST", "/observers/replayed/replay", json={"after": 0})
    assert answer.status_code == 200
    told = both.guise("readers", user="eve").get("/users/eve/inbox?timeout=10s").text
    assert ("NonEmpty" in told, SECRET in told) == (True, False)


def test_anothers_idempotency_key_gives_nothing_away(both: Neighbours) -> None:
    key = {"Idempotency-Key": "the same"}
    secret = {"events": [{"type": ["secret", SECRET]}]}
    owner = both.server.organization()
    first, repeated = (owner.post(secret, **key) for _ in range(2))
    others = both.thief.post({"events": [{"type": ["a"]}]}, **key)
    assert [answer.status_code for answer in (first, repeated, others)] == [201, 200, 201]
    assert SECRET not in said(others)


def test_a_condition_looks_at_ones_own_log_alone(both: Neighbours) -> None:
    """Else it would tell whether the neighbour has such an event."""
    condition = {"failIfEventsMatch": {"types": [["secret", SECRET]], "keys": [f"/{SECRET}"]}}
    answer = both.thief.post({"events": [{"type": ["a"]}], "condition": condition})
    assert answer.status_code == 201


@pytest.mark.parametrize("user", ["*", "?", "anna/..", "../anna", "ANNA", "anna\0", "", "an%6Ea"])
def test_an_inbox_is_that_of_the_very_user(user: str, both: Neighbours) -> None:
    stranger = both.server.member("thief", groups=["readers"], user=user or "nobody")
    told = stranger.get("/users/anna/inbox")
    assert (told.status_code, "eventSnapshots" in told.text) == (403, False)
    own = stranger.get(f"/users/{quote(stranger.user, safe='')}/inbox")
    assert (own.status_code, "eventSnapshots" in own.text) == (200, False)


def test_an_admin_reads_inboxes_of_their_own_organization_alone(both: Neighbours) -> None:
    told = both.thief.get("/users/anna/inbox").text
    assert ("plain" in told, SECRET in told) == (True, False)
    assert both.thief.get(f"/users/{SECRET}/inbox").json()["TYPE"] == "Empty"


def test_a_link_to_a_report_opens_no_other(both: Neighbours) -> None:
    link = both.thief.ask("POST", "/reports/report/link").json()["link"]
    name, _, ticket = link.partition("?")
    client = both.server.client
    assert "plain" in client.get(f"/{link}").text
    for number in (both.victims_log, f"1-{both.victims_log}"):
        for path in (f"/{name}-{number}?{ticket}", f"/reports/..%2freports%2freport-{number}.html?{ticket}"):
            answer = client.get(path)
            assert (answer.status_code in (403, 404), SECRET in answer.text) == (True, False)
    for more in (f"&server={both.victims_log}", "&org=victim"):
        assert SECRET not in client.get(f"/{link}{more}", headers={"X-Organization": "victim"}).text


def test_an_organization_that_is_created_later_belongs_to_who_was_given_its_name(both: Neighbours) -> None:
    name = "made-between"
    owner, early = both.server.member(name), both.server.member("thief", name)
    assert owner.get("/events").status_code == 404
    assert both.thief.ask("PUT", f"/organizations/{name}").status_code == 403
    owner.create()
    owner.publish("a")
    assert both.thief.get("/events", headers={"X-Organization": name}).status_code == 403
    assert early.get("/events", headers={"X-Organization": name}).status_code == 200
