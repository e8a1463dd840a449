"""A server process notices what does not happen: events in the log, and notifications about them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.domain.expectations.expectation import Expectation
from chalicelib.settings import Settings
from chalicelib.wiring import build_local
from tests.serving import Member, Server, run_server

ORGANIZATION = "local"
POLL_S = 12
AN_HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose expectations were configured an hour ago. No run has started since."""
    folder: Path = tmp_path_factory.mktemp("expectations") / "data"
    folder.mkdir()
    earlier_ms = time.time_ns() // 1_000_000 - AN_HOUR_MS
    components = build_local(Settings.from_environment({"DATA_DIR": str(folder)}), lambda: earlier_ms)
    organization, _ = components.log.organizations.create(ORGANIZATION)
    expected = {"nightly": Expectation(type="backup", every=3590, grace=0, max_duration=1)}
    expected["idle"] = Expectation(type="restore", every=7200)
    for name, expectation in expected.items():
        components.expectations.registry.put(organization.server, name, expectation)
    components.close()
    (folder / "observers.yaml").write_text(FILE)
    with run_server(folder, OBSERVERS_FILE=str(folder / "observers.yaml")) as running:
        yield running


FILE = """
observers:
  alarms: {channel: app, types: [job/missed/*, job/late/*, job/overdue/*, job/recovered/*], config: {to: anna}}
expectations:
  weekly: {type: report, cron: 0 6 * * MON, time_zone: Europe/Berlin, description: Weekly report}
"""


def job(name: str, **more: str) -> dict[str, Any]:
    return {"event": name, "node": "n1", "id": 117, "type": "backup", **more}


def wait_for_alarm(member: Member, kind: str) -> dict[str, Any]:
    query = {"types": f"job/{kind}/*", "after": 0, "timeout": POLL_S}
    (event,) = member.get("/events", params=query).json()["eventSnapshots"]
    assert event["key"] == "/expectation/nightly"
    data: dict[str, Any] = event["payload"]["data"]
    return data


def test_missed_run_is_late_overdue_and_recovers(server: Server) -> None:
    member = server.member(ORGANIZATION)
    assert wait_for_alarm(member, "missed")["expectation"] == "nightly"
    assert member.get("/expectations/nightly").json()["state"] == "missed"
    member.request("POST", "/events/job", json={"events": [job("create")]}).raise_for_status()
    assert wait_for_alarm(member, "late")["job"] == 117
    assert wait_for_alarm(member, "overdue")["reason"] == "duration"
    finish = job("finish", success="1", message="done")
    member.request("POST", "/events/job", json={"events": [finish]}).raise_for_status()
    assert wait_for_alarm(member, "recovered")["alarms"] == ["late", "missed", "overdue"]
    status = member.get("/expectations/nightly").json()
    assert (status["state"], status["openAlarms"]) == ("ok", [])
    inbox = [member.get("/users/anna/inbox", params={"after": 0, "timeout": POLL_S}).json()]
    while len(inbox[-1]["eventSnapshots"]) < 4:
        last = inbox[-1]["eventSnapshots"][-1]["eventId"]
        assert member.get("/users/anna/inbox", params={"after": last, "timeout": POLL_S}).json()["eventSnapshots"]
        inbox.append(member.get("/users/anna/inbox", params={"after": 0, "timeout": POLL_S}).json())
    assert len(inbox[-1]["eventSnapshots"]) == 4


def test_expectations_file_is_applied_at_start(server: Server) -> None:
    member = server.member(ORGANIZATION)
    page = member.get("/expectations", params={"limit": 2}).json()
    assert ([one["name"] for one in page["expectations"]], page["moreFollows"]) == (["idle", "nightly"], True)
    (weekly,) = member.get("/expectations", params={"after": "nightly"}).json()["expectations"]
    assert (weekly["name"], weekly["state"], weekly["description"]) == ("weekly", "new", "Weekly report")
    assert weekly["nextExpectedAt"].endswith(":00:00.000000Z")


def test_put_show_and_delete_expectation(server: Server) -> None:
    member = server.member(ORGANIZATION)
    body = {"type": "deploy", "every": "1h", "grace": 60, "paused": True}
    created = member.request("PUT", "/expectations/deploys", json=body)
    assert (created.status_code, created.json()["every"], created.json()["grace"]) == (201, "PT1H", "PT1M")
    assert (created.json()["state"], created.json()["nextExpectedAt"]) == ("paused", None)
    assert member.request("PUT", "/expectations/deploys", json=body).status_code == 200
    assert member.request("DELETE", "/expectations/deploys").json() == {"deleted": "deploys"}
    assert member.request("DELETE", "/expectations/deploys").status_code == 404
    assert member.get("/expectations/deploys").status_code == 404


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"type": "a", "every": "1h", "cron": "0 2 * * *"}, "give either every or cron, not both"),
        ({"type": "a", "cron": "0 2 * * *", "time_zone": "Mars/Base"}, "use an IANA name such as 'Europe/Berlin'"),
        ({"type": "a", "cron": "0 0 31 2 *"}, "never fires"),
        ({"type": "a", "cron": "@daily"}, "five fields"),
        ({"type": "a", "cron": "*/5 * * * *", "grace": "1h"}, "use at most PT5M, or every instead of cron"),
        ({"type": "a", "every": "10s"}, "every: must be between PT1M and P366D"),
        ({"type": "a"}, "give at least one of every, cron, max_duration, max_silence and min_interval"),
        ({"every": "1h"}, "give either type"),
        ({"type": "a", "key": "/job/1", "every": "1h"}, "give either type"),
        ({"key": "/web", "every": "1h"}, "key"),
        ({"key": "/job/1", "node": "n1", "every": "1h"}, "node is only for an expectation with type"),
        ({"type": "a", "every": "1h", "time_zone": "UTC"}, "time_zone is only for an expectation with cron"),
        ({"type": "a", "max_duration": "1h", "grace": "1m"}, "grace is only for an expectation with every or cron"),
    ],
)
def test_put_invalid_expectation_says_what_is_right(server: Server, body: dict[str, Any], detail: str) -> None:
    response = server.member(ORGANIZATION).request("PUT", "/expectations/a", json=body)
    assert (response.status_code, detail in response.json()["detail"]) == (400, True), response.text


def test_only_admins_change_and_readers_read(server: Server) -> None:
    reader = server.member(ORGANIZATION, groups=["readers"])
    publisher = server.member(ORGANIZATION, groups=["publishers"])
    assert reader.get("/expectations").status_code == 200
    assert publisher.get("/expectations").status_code == 403
    for member in (reader, publisher):
        assert member.request("PUT", "/expectations/a", json={"type": "a", "every": "1h"}).status_code == 403
        assert member.request("DELETE", "/expectations/idle").status_code == 403
