"""Sends pings, without any token."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.serving import Member


@dataclass(frozen=True)
class Pinger:
    """A program that knows the text of a ping key."""

    member: Member
    """Reads what the pings have written."""
    key: str

    def ping(self, path: str, method: str = "GET", **options: Any) -> httpx.Response:
        """Send a ping to a path below the key, such as `backup/start?rid=…`."""
        return self.member.server.client.request(method, f"/ping/{self.key}/{path}", **options)

    def new(self, path: str) -> httpx.Response:
        """Send a ping that may create the name."""
        response = self.ping(f"{path}{'&' if '?' in path else '?'}create=1")
        assert response.status_code in (200, 201), response.text
        return response

    def job(self, number: int) -> dict[str, Any]:
        response = self.member.get(f"/jobs/{number}")
        assert response.status_code == 200, response.text
        job: dict[str, Any] = response.json()
        return job

    def outcomes(self) -> list[str | None]:
        """How the runs ended, by number. None: it is open."""
        jobs = self.member.get("/objects/job").json()["elements"]
        return [job.get("outcome") for job in sorted(jobs, key=lambda job: int(job["id"]))]

    def commits(self) -> list[list[str]]:
        """The types of the events of each commit."""
        commits: dict[int, list[str]] = {}
        for event in self.member.read_log()["events"]:
            commits.setdefault(event["id"]["session"], []).append("/".join(event["type"]))
        return list(commits.values())


def new_pinger(member: Member, name: str = "cron") -> Pinger:
    response = member.request("PUT", f"/ping-keys/{name}")
    assert response.status_code == 201, response.text
    return Pinger(member, response.json()["key"])
