"""A server process closes jobs that have been silent for longer than CLEAN_TIMEOUT."""

from pathlib import Path
from typing import Any

from tests.serving import TIMEOUT_S, run_server

POLL_S = TIMEOUT_S - 2
"""How long a poll waits for the event. The worker looks for due jobs every 2 seconds."""


def create(number: int, **props: str) -> dict[str, Any]:
    return {"event": "create", "node": "n1", "id": number, "type": "backup", "props": props}


def test_silent_job_is_closed_after_clean_timeout(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", CLEAN_TIMEOUT="1") as server:
        member = server.organization()
        jobs = {"events": [create(117), create(118, clean_timeout="3600")]}
        created = member.request("POST", "/events/job", json=jobs).json()["eventId"]
        query = {"types": "job/clean/*", "after": created, "timeout": POLL_S}
        cleaned = member.get("/events", params=query).json()["eventSnapshots"]
        assert [event["key"] for event in cleaned] == ["/job/117"]
        assert [member.get(f"/jobs/{number}").json()["state"] for number in (117, 118)] == ["cleaned", "created"]
