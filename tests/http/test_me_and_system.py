"""GET /me and GET /system: who one is, and where the log stands."""

import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from chalicelib import __version__
from chalicelib.domain import timestamps
from tests.notifications.outside import eventually
from tests.serving import ALL_GROUPS, JWT_KEY, Member, Server, new_name, serving

NOBODY = {"read": False, "publish": False, "administer": False}


@pytest.mark.parametrize(
    ("groups", "may"),
    [
        (["readers"], NOBODY | {"read": True}),
        (["publishers"], NOBODY | {"publish": True}),
        (["pushy_job_readers", "pushy_job_writers"], NOBODY | {"read": True, "publish": True}),
        (["admins"], {"read": True, "publish": True, "administer": True}),
        (["others"], NOBODY),
        ([], NOBODY),
    ],
)
def test_everybody_with_a_token_is_told_what_they_may_do(
    server: Server, groups: list[str], may: dict[str, bool]
) -> None:
    answer = server.member("b", "a", groups=groups, user="ben").get("/me")
    found = answer.json()
    assert answer.status_code == 200
    expires = timestamps.parse(found.pop("expires")) // 1_000_000
    assert 29 * 86400 < expires - time.time() < 31 * 86400
    assert found == {"user": "ben", "organizations": ["b", "a"], "groups": sorted(groups), "may": may}


def test_a_token_without_end_ends_with_the_calendar(server: Server) -> None:
    token = jwt.encode({"sub": "anna", "exp": 10**14}, JWT_KEY, algorithm="HS256")
    found = server.client.get("/me", headers={"Authorization": f"Bearer {token}"}).json()
    assert (found["expires"], found["organizations"]) == ("9999-12-31T23:59:59.000000Z", [])


@pytest.mark.parametrize("path", ["/me", "/system"])
def test_without_a_token_nobody_is_told_anything(server: Server, path: str) -> None:
    assert server.client.get(path).status_code == 401


@pytest.mark.parametrize("path", ["/me", "/system"])
def test_what_takes_no_parameters_refuses_them(member: Member, path: str) -> None:
    assert member.get(f"{path}?a=1").status_code == 400


def system(member: Member, **headers: str) -> dict[str, Any]:
    answer = member.get("/system", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_system_of_a_new_organization_has_nothing_in_it(member: Member) -> None:
    found = system(member)
    number = member.create()
    assert found == {
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


def test_consumers_catch_up_with_the_head(member: Member) -> None:
    events = member.publish("a", "b")

    def is_caught_up(found: dict[str, Any]) -> bool:
        return all(one["behind"] == 0 for one in found["consumers"])

    found = eventually(lambda: system(member), is_caught_up)
    last = events[-1]
    assert found["head"] == {name: last[name] for name in ("id", "eventId", "timestamp")}
    assert found["firstKept"] == events[0]["eventId"]
    assert [(one["eventId"], one["lagSeconds"]) for one in found["consumers"]] == [(last["eventId"], 0.0)] * 2


def test_organizations_are_those_of_the_token_that_exist(server: Server) -> None:
    first, second = server.organization(), server.organization()
    both = server.member("nowhere", second.organization, first.organization)
    found = system(both, **{"X-Organization": second.organization})
    assert found["organization"] == second.organization
    assert found["organizations"] == [first.organization, second.organization]


@pytest.mark.parametrize(
    ("groups", "status"), [(["readers"], 200), (["admins"], 200), (["publishers"], 403), ([], 403)]
)
def test_the_system_is_for_readers(member: Member, groups: list[str], status: int) -> None:
    somebody = member.server.member(member.organization, groups=groups)
    assert somebody.get("/system").status_code == status


def test_the_system_of_another_organization_is_out_of_reach(member: Member) -> None:
    assert member.get("/system", headers={"X-Organization": "local"}).status_code == 403
    assert member.server.member(new_name(), groups=ALL_GROUPS).get("/system").status_code == 404


def test_settings_are_told_as_they_are(tmp_path: Path) -> None:
    with serving(tmp_path / "data", RETENTION="P1DT90M", STREAMS="no", LONGEST_POLL="7") as server:
        found = system(server.organization())
    assert (found["retention"], found["settings"]) == ("P1DT1H30M", {"longestPollS": 7.0, "streams": False})
