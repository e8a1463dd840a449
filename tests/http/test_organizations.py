"""PUT /organizations/{org}, and GET /health that tells of them."""

from pathlib import Path

import pytest

from chalicelib import __version__
from tests.serving import Server, new_name, serving


def test_an_organization_is_created_once(server: Server) -> None:
    name = new_name()
    member = server.member(name)
    first, again = (member.ask("PUT", f"/organizations/{name}") for _ in range(2))
    expected = {"organization": name, "server": first.json()["server"]}
    assert [(answer.status_code, answer.json()) for answer in (first, again)] == [(201, expected), (200, expected)]


def test_organizations_are_numbered_one_after_the_other(server: Server) -> None:
    first, second = server.organization().create(), server.organization().create()
    assert second == first + 1


def test_a_new_organization_has_an_empty_log_of_its_own(server: Server) -> None:
    one, other = server.organization(), server.organization()
    one.publish("a")
    assert other.stored() == {"events": [], "moreFollows": False, "eventId": 0}


@pytest.mark.parametrize(
    ("groups", "names", "status", "detail"),
    [
        (["publishers", "readers"], ["acme"], 403, "User or client 'anna' does not have access to that action"),
        (["admins"], ["other"], 403, "'anna' is not associated with organization 'acme'"),
        (["admins"], [], 403, "'anna' is not associated with organization 'acme'"),
    ],
)
def test_only_its_own_admin_may_create_an_organization(
    groups: list[str], names: list[str], status: int, detail: str, server: Server
) -> None:
    before = server.organization().create()
    answer = server.member(*names, groups=groups).ask("PUT", "/organizations/acme")
    assert (answer.status_code, detail in answer.json()["detail"]) == (status, True)
    assert server.organization().create() == before + 1


@pytest.mark.parametrize("name", ["a.b", "-a", "a" * 64])
def test_a_name_that_would_make_trouble_is_refused(name: str, server: Server) -> None:
    answer = server.member(name).ask("PUT", f"/organizations/{name}")
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "an organization's name has 1 to 63 letters, digits, '-' and '_', and begins with a letter or digit",
    )


def test_health_needs_no_token_and_tells_where_the_logs_stand(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        member = server.organization()
        event = member.publish("a", "b")[-1]
        answer = server.client.get("/health")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "status": "ok",
            "version": __version__,
            "heads": [
                {"id": {"server": 1, "session": 0, "instance": 0}, "eventId": 0},
                {"id": event["id"], "eventId": event["eventId"]},
            ],
        },
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "detail", "allow"),
    [
        ("GET", "/nothing", 404, "there is nothing at /nothing", None),
        ("GET", "/events/", 404, "there is nothing at /events/", None),
        ("GET", "/events//", 404, "there is nothing at /events//", None),
        ("GET", "/EVENTS", 404, "there is nothing at /EVENTS", None),
        ("GET", "/organizations/", 404, "there is nothing at /organizations/", None),
        ("GET", "/organizations/a/b", 404, "there is nothing at /organizations/a/b", None),
        ("DELETE", "/events", 405, "DELETE is not possible here, only GET, POST", "GET, POST"),
        ("PUT", "/events/server", 405, "PUT is not possible here, only GET, POST", "GET, POST"),
        ("GET", "/organizations/acme", 405, "GET is not possible here, only PUT", "PUT"),
        ("POST", "/health", 405, "POST is not possible here, only GET", "GET"),
    ],
)
def test_what_is_not_there_is_not_there(
    method: str, path: str, status: int, detail: str, allow: str | None, server: Server
) -> None:
    answer = server.client.request(method, path)
    titles = {404: "Not Found", 405: "Method Not Allowed"}
    assert (answer.status_code, answer.headers["content-type"], answer.headers.get("allow"), answer.json()) == (
        status,
        "application/problem+json",
        allow,
        {"type": "about:blank", "title": titles[status], "status": status, "detail": detail},
    )
