"""GET and POST /events/server."""

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
def test_foreign_server_is_refused(method: str, server: Server, member: Member) -> None:
    foreign = server.organization().create()
    response = member.request(
        method, "/events/server", **{"params" if method == "GET" else "json": {"server": foreign}}
    )
    assert (response.status_code, response.json()["detail"]) == (
        400,
        f"server {foreign} is not one of your servers: [{member.create()}]",
    )


def test_post_without_body_is_refused(member: Member) -> None:
    response = member.request("POST", "/events/server")
    assert (response.status_code, response.json()["detail"].startswith("the body is not valid JSON")) == (400, True)
