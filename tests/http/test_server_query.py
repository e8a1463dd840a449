"""GET and POST /events/server."""

from typing import Any

import pytest

from tests.serving import Member, Server


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_server_query_defaults_to_own_log(method: str, member: Member) -> None:
    events = member.publish("a", "b")
    response = member.request(method, "/events/server", **({} if method == "GET" else {"json": {}}))
    assert (response.status_code, response.headers["content-type"], response.json()) == (
        200,
        "application/json",
        {"events": events, "moreFollows": False, "eventId": events[1]["eventId"]},
    )


def test_server_query_of_empty_log_is_empty(member: Member) -> None:
    assert member.read_log() == {"events": [], "moreFollows": False, "eventId": 0}


def test_member_of_two_organizations_may_query_both(server: Server) -> None:
    first, second = server.organization(), server.organization()
    events = {member.organization: member.publish("a") for member in (first, second)}
    both = server.member(first.organization, second.organization)
    for name, number in ((first.organization, first.create()), (second.organization, second.create())):
        by_number = both.get("/events/server", params={"server": number}).json()
        by_name = both.get("/events/server", headers={"X-Organization": name}).json()
        assert by_number == by_name
        assert by_number["events"] == events[name]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("more", [{}, {"maxResults": 0}, {"lastEventId": "{}.1.1"}, {"lastEventId": "{}.0.0"}])
def test_foreign_and_unknown_server_are_equally_empty(
    method: str, more: dict[str, Any], server: Server, member: Member
) -> None:
    other = server.organization()
    other.publish("a", "b")
    responses = []
    for number in (other.create(), 999_999):
        query = {"server": number, **{name: str(value).format(number) for name, value in more.items()}}
        responses.append(member.request(method, "/events/server", **{"params" if method == "GET" else "json": query}))
    assert [(response.status_code, response.json()) for response in responses] == [
        (200, {"events": [], "moreFollows": False, "eventId": 0})
    ] * 2
    assert responses[0].headers.keys() == responses[1].headers.keys()


@pytest.mark.parametrize("path", ["/events/timeseries", "/events/latest"])
def test_foreign_and_unknown_last_event_are_equally_empty(path: str, server: Server, member: Member) -> None:
    other = server.organization()
    other.publish("a", "b")
    (own,) = member.publish("a")
    for number in (other.create(), 999_999):
        response = member.get(path, params={"lastEventId": f"{number}.1.1"})
        assert (response.status_code, response.json()) == (
            200,
            {"events": [], "moreFollows": False, "eventId": own["eventId"]},
        )


def test_server_query_checks_organization_header(member: Member) -> None:
    for number in (member.create(), 999_999):
        response = member.get("/events/server", params={"server": number}, headers={"X-Organization": "-"})
        assert response.status_code == 403, response.text


def test_post_without_body_is_refused(member: Member) -> None:
    response = member.request("POST", "/events/server")
    assert (response.status_code, response.json()["detail"].startswith("the body is not valid JSON")) == (400, True)
