"""PUT /organizations/{org}, and GET /health."""

from pathlib import Path

import pytest

from chalicelib import __version__
from tests.serving import Server, new_organization_name, run_server


def test_organization_is_created_once(server: Server) -> None:
    name = new_organization_name()
    member = server.member(name)
    first, again = (member.request("PUT", f"/organizations/{name}") for _ in range(2))
    expected = {"organization": name, "server": first.json()["server"]}
    assert [(response.status_code, response.json()) for response in (first, again)] == [
        (201, expected),
        (200, expected),
    ]


def test_organizations_are_numbered_consecutively(server: Server) -> None:
    first, second = server.organization().create(), server.organization().create()
    assert second == first + 1


def test_new_organization_has_its_own_empty_log(server: Server) -> None:
    first, second = server.organization(), server.organization()
    first.publish("a")
    assert second.read_log() == {"events": [], "moreFollows": False, "eventId": 0}


@pytest.mark.parametrize(
    ("groups", "names", "status", "detail"),
    [
        (["publishers", "readers"], ["acme"], 403, "User or client 'anna' does not have access to that action"),
        (["admins"], ["other"], 403, "'anna' is not associated with organization 'acme'"),
        (["admins"], [], 403, "'anna' is not associated with organization 'acme'"),
    ],
)
def test_only_own_admin_creates_organization(
    groups: list[str], names: list[str], status: int, detail: str, server: Server
) -> None:
    before = server.organization().create()
    response = server.member(*names, groups=groups).request("PUT", "/organizations/acme")
    assert (response.status_code, detail in response.json()["detail"]) == (status, True)
    assert server.organization().create() == before + 1


@pytest.mark.parametrize("name", ["a.b", "-a", "a" * 64])
def test_invalid_organization_name_is_refused(name: str, server: Server) -> None:
    response = server.member(name).request("PUT", f"/organizations/{name}")
    assert (response.status_code, response.json()["detail"]) == (
        400,
        "an organization's name has 1 to 63 letters, digits, '-' and '_', and begins with a letter or digit",
    )


def test_health_without_token_returns_heads(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        event = member.publish("a", "b")[-1]
        response = server.client.get("/health")
    assert (response.status_code, response.json()) == (
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


def test_health_lists_logs_and_pages_through_all(server: Server) -> None:
    numbers = [server.organization().create() for _ in range(12)]

    def listed(query: str) -> list[int]:
        response = server.client.get(f"/health{query}")
        assert response.status_code == 200, response.text
        return [head["id"]["server"] for head in response.json()["heads"]]

    assert listed("")[:12] == list(range(1, 13))
    assert listed("?limit=3") == [1, 2, 3]
    assert listed(f"?after={numbers[0] - 1}&limit=100")[:12] == numbers
    assert listed(f"?after={numbers[-1] + 1000}") == []


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=-1", "limit=x", "after=-1", "after=x", "after=1e3"])
def test_health_with_bad_page_is_refused(server: Server, query: str) -> None:
    response = server.client.get(f"/health?{query}")
    assert response.status_code == 400
    assert query.partition("=")[0] in response.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "detail", "allow"),
    [
        ("GET", "/nothing", 404, "there is nothing at /nothing", None),
        ("GET", "/events/", 404, "there is nothing at /events/", None),
        ("GET", "/events//", 404, "there is nothing at /events//", None),
        ("GET", "/EVENTS", 404, "there is nothing at /EVENTS", None),
        ("GET", "/organizations/", 404, "there is nothing at /organizations/", None),
        ("GET", "/organizations/a/b", 404, "there is nothing at /organizations/a/b", None),
        ("DELETE", "/events", 405, "DELETE is not allowed here; allowed: GET, POST", "GET, POST"),
        ("PUT", "/events/server", 405, "PUT is not allowed here; allowed: GET, POST", "GET, POST"),
        ("GET", "/organizations/acme", 405, "GET is not allowed here; allowed: PUT", "PUT"),
        ("POST", "/health", 405, "POST is not allowed here; allowed: GET", "GET"),
    ],
)
def test_unknown_route_returns_404_or_405(
    method: str, path: str, status: int, detail: str, allow: str | None, server: Server
) -> None:
    response = server.client.request(method, path)
    titles = {404: "Not Found", 405: "Method Not Allowed"}
    assert (response.status_code, response.headers["content-type"], response.headers.get("allow"), response.json()) == (
        status,
        "application/problem+json",
        allow,
        {"type": "about:blank", "title": titles[status], "status": status, "detail": detail},
    )
