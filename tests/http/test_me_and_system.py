"""GET /me and GET /system: the caller, and the status of the log."""

import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from chalicelib import __version__
from chalicelib.domain import timestamps
from tests.notifications.fake_channels import eventually
from tests.serving import ALL_GROUPS, JWT_KEY, Member, Server, new_organization_name, run_server

NO_PERMISSIONS = {"read": False, "publish": False, "administer": False}


@pytest.mark.parametrize(
    ("groups", "may"),
    [
        (["readers"], NO_PERMISSIONS | {"read": True}),
        (["publishers"], NO_PERMISSIONS | {"publish": True}),
        (["pushy_job_readers", "pushy_job_writers"], NO_PERMISSIONS | {"read": True, "publish": True}),
        (["admins"], {"read": True, "publish": True, "administer": True}),
        (["others"], NO_PERMISSIONS),
        ([], NO_PERMISSIONS),
    ],
)
def test_me_returns_rights_of_the_caller(server: Server, groups: list[str], may: dict[str, bool]) -> None:
    response = server.member("b", "a", groups=groups, user="ben").get("/me")
    body = response.json()
    assert response.status_code == 200
    expires = timestamps.parse(body.pop("expires")) // 1_000_000
    assert 29 * 86400 < expires - time.time() < 31 * 86400
    assert body == {"user": "ben", "organizations": ["b", "a"], "groups": sorted(groups), "may": may}


def test_me_with_unlimited_token_expires_in_year_9999(server: Server) -> None:
    token = jwt.encode({"sub": "anna", "exp": 10**14}, JWT_KEY, algorithm="HS256")
    body = server.client.get("/me", headers={"Authorization": f"Bearer {token}"}).json()
    assert (body["expires"], body["organizations"]) == ("9999-12-31T23:59:59.000000Z", [])


@pytest.mark.parametrize("path", ["/me", "/system"])
def test_request_without_token_is_refused(server: Server, path: str) -> None:
    assert server.client.get(path).status_code == 401


@pytest.mark.parametrize("path", ["/me", "/system"])
def test_unexpected_parameters_are_refused(member: Member, path: str) -> None:
    assert member.get(f"{path}?a=1").status_code == 400


def system(member: Member, **headers: str) -> dict[str, Any]:
    response = member.get("/system", headers=headers)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def test_system_of_new_organization_is_empty(member: Member) -> None:
    body = system(member)
    number = member.create()
    assert body == {
        "version": __version__,
        "mode": "embedded",
        "organization": member.organization,
        "head": {"id": {"server": number, "session": 0, "instance": 0}, "eventId": 0, "timestamp": None},
        "events": None,
        "firstKept": None,
        "consumers": [
            {"name": "project", "eventId": 0, "behind": 0, "lagSeconds": 0.0},
            {"name": "observe", "eventId": 0, "behind": 0, "lagSeconds": 0.0},
        ],
        "organizations": [member.organization],
        "retention": None,
        "settings": {"longestPollS": 3600.0, "streams": True},
    }


def test_system_consumers_reach_the_head(member: Member) -> None:
    events = member.publish("a", "b")

    def is_caught_up(body: dict[str, Any]) -> bool:
        return all(consumer["behind"] == 0 for consumer in body["consumers"])

    body = eventually(lambda: system(member), is_caught_up)
    last = events[-1]
    assert body["head"] == {name: last[name] for name in ("id", "eventId", "timestamp")}
    assert body["firstKept"] == events[0]["eventId"]
    assert [(consumer["eventId"], consumer["lagSeconds"]) for consumer in body["consumers"]] == [
        (last["eventId"], 0.0)
    ] * 2


def test_system_lists_existing_organizations_of_token(server: Server) -> None:
    first, second = server.organization(), server.organization()
    both = server.member("nowhere", second.organization, first.organization)
    body = system(both, **{"X-Organization": second.organization})
    assert body["organization"] == second.organization
    assert body["organizations"] == [first.organization, second.organization]


def test_system_pages_organizations_by_name(server: Server) -> None:
    names = sorted(server.organization().organization for _ in range(3))
    member = server.member("nowhere", *reversed(names))
    headers = {"X-Organization": names[0]}

    def page(query: str) -> list[str]:
        response = member.get(f"/system?{query}", headers=headers)
        assert response.status_code == 200, response.text
        listed: list[str] = response.json()["organizations"]
        return listed

    assert (page("limit=2"), page(f"limit=2&after={names[1]}")) == (names[:2], names[2:])
    assert page(f"after={names[0]}") == names[1:]
    assert (page("limit=1000"), page(f"after={names[2]}")) == (names, [])


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", f"after={'x' * 201}"])
def test_system_with_bad_page_is_refused(member: Member, query: str) -> None:
    response = member.get(f"/system?{query}")
    assert response.status_code == 400
    assert query.partition("=")[0] in response.json()["detail"]


@pytest.mark.parametrize(
    ("groups", "status"), [(["readers"], 200), (["admins"], 200), (["publishers"], 403), ([], 403)]
)
def test_system_is_only_for_readers(member: Member, groups: list[str], status: int) -> None:
    somebody = member.server.member(member.organization, groups=groups)
    assert somebody.get("/system").status_code == status


def test_system_of_other_organization_is_forbidden(member: Member) -> None:
    assert member.get("/system", headers={"X-Organization": "local"}).status_code == 403
    assert member.server.member(new_organization_name(), groups=ALL_GROUPS).get("/system").status_code == 404


def test_system_returns_configured_settings(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", RETENTION="P1DT90M", STREAMS="no", LONGEST_POLL="7") as server:
        body = system(server.organization())
    assert (body["retention"], body["settings"]) == ("P1DT1H30M", {"longestPollS": 7.0, "streams": False})
