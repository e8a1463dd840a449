"""GET and POST /events/server: whose log, and how it is asked for."""

import pytest

from tests.serving import Member, Server


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_server_it_is_the_log_of_the_callers_organization(method: str, member: Member) -> None:
    events = member.publish("a", "b")
    answer = member.ask(method, "/events/server", **({} if method == "GET" else {"json": {}}))
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (
        200,
        "application/json",
        {"events": events, "moreFollows": False, "eventId": events[1]["eventId"]},
    )


def test_an_empty_log_has_no_events(member: Member) -> None:
    assert member.stored() == {"events": [], "moreFollows": False, "eventId": 0}


def test_a_member_of_two_organizations_may_ask_for_either(server: Server) -> None:
    one, other = server.organization(), server.organization()
    events = {member.organization: member.publish("a") for member in (one, other)}
    both = server.member(one.organization, other.organization)
    for name, number in ((one.organization, one.create()), (other.organization, other.create())):
        by_number = both.get("/events/server", params={"server": number}).json()
        by_name = both.get("/events/server", headers={"X-Organization": name}).json()
        assert by_number == by_name
        assert by_number["events"] == events[name]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_server_is_refused(method: str, server: Server, member: Member) -> None:
    foreign = server.organization().create()
    answer = member.ask(method, "/events/server", **{"params" if method == "GET" else "json": {"server": foreign}})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        f"server {foreign} is none of yours, which are [{member.create()}]",
    )


def test_a_post_needs_a_body(member: Member) -> None:
    answer = member.ask("POST", "/events/server")
    assert (answer.status_code, answer.json()["detail"].startswith("the body is no JSON")) == (400, True)
