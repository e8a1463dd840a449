"""Job events, and a client that configures observers over HTTP."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import trustme

from tests.notifications.fake_channels import FakeChannels, Json, eventually
from tests.serving import Member, Server

JOBS = """
jobs:
  backup: {label: Nightly backup}
  quiet: {silent: "1", label: Quiet}
  unmailed: {nomail: "1"}
  unslacked: {noslack: "1"}
  chatty: {mail_progress: "1"}
"""
"""Observers file with job settings for the organization `local`."""
DEFAULT_FIELDS: dict[str, Json] = {
    "progress": {"state": "run"},
    "redirect": {"redirect": "n2"},
    "finish": {"success": "1", "message": "done"},
    "createJobSet": {"jobs": []},
    "progressJobSet": {"progress": "1/2"},
    "finishJobSet": {"jobs": []},
    "cleanJobSet": {"jobs": []},
}


def job(name: str, number: int = 1, /, **more: object) -> Json:
    """An event in AnyJob's JSON with plausible defaults."""
    job_type = {} if name == "redirect" or name.endswith("JobSet") else {"type": "backup"}
    return {"event": name, "node": "n1", "id": number, **job_type, **DEFAULT_FIELDS.get(name, {}), **more}


def server_environment(
    channels: FakeChannels, folder: Path, authority: trustme.CA, observers_file: str = JOBS
) -> dict[str, str]:
    """The environment of a server that delivers to these channels."""
    folder.mkdir(parents=True, exist_ok=True)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    (folder / "observers.yaml").write_text(observers_file)
    return {
        "SMTP_URL": f"smtp://127.0.0.1:{channels.smtp_port}",
        "MAIL_FROM": "annals@example.org",
        "SLACK_HOSTS": f"private:localhost:{channels.slack.port}",
        "WEBHOOK_HOSTS": "127.0.0.1",
        "SSL_CERT_FILE": str(folder / "authority.pem"),
        "OBSERVERS_FILE": str(folder / "observers.yaml"),
        "PUBLIC_URL": "https://annals.example/",
    }


@dataclass
class ObserverClient:
    """A user who configures observers and publishes events."""

    member: Member
    channels: FakeChannels

    @property
    def name(self) -> str:
        """The name of the organization, which is unique to the test."""
        return self.member.organization

    @property
    def address(self) -> str:
        """A mail address that no other test uses."""
        return f"{self.name.lower()}@example.org"

    @property
    def slack_channel(self) -> str:
        """A Slack channel that no other test uses."""
        return self.name

    def colleague(self, user: str, *groups: str) -> "ObserverClient":
        """Another user of the same organization, by default a reader."""
        member = self.member.server.member(self.name, groups=groups or ["readers"], user=user)
        return ObserverClient(member, self.channels)

    def put(self, name: str, channel: str = "mail", /, **more: Any) -> Json:
        response = self.request("PUT", name, self.configuration(channel, **more))
        assert response.status_code in (200, 201), response.text
        observer: Json = response.json()
        return observer

    def configuration(self, channel: str = "mail", **more: Any) -> Json:
        """A configuration that delivers to the address, Slack channel or user of this test."""
        config = {
            "mail": {"to": self.address},
            "slack": {"url": self.channels.slack.url(self.slack_channel)},
            "app": {} if more.get("scope") == "private" else {"to": self.member.user},
        }.get(channel, {})
        return {"channel": channel, **more, "config": {**config, **more.get("config", {})}}

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a request below /observers/."""
        return self.member.request(method, f"/observers/{path}", **({} if body is None else {"json": body}))

    def publish(self, *events: Json) -> list[int]:
        """Append job events in one request. Returns their event ids."""
        response = self.member.request("POST", "/events/job", json={"events": events})
        assert response.status_code == 201, response.text
        return [event["eventId"] for event in response.json()["events"]]

    def deliveries(self, name: str) -> dict[str, int]:
        """Numbers of deliveries of an observer by state."""
        response = self.request("GET", name)
        assert response.status_code == 200, response.text
        counts: dict[str, int] = response.json()["deliveries"]
        return counts

    def wait_until_settled(self, name: str, number: int) -> dict[str, int]:
        """Wait until at least `number` deliveries exist and none waits. Returns the counts that are not zero."""
        settled = eventually(
            lambda: self.deliveries(name), lambda counts: not counts["waiting"] and sum(counts.values()) >= number
        )
        return {state: count for state, count in settled.items() if count}

    def failures(self, name: str, number: int = 1) -> list[Json]:
        """Wait until at least `number` deliveries are parked, and return them."""

        def list_failures() -> list[Json]:
            response = self.request("GET", f"{name}/failures")
            assert response.status_code == 200, response.text
            failures: list[Json] = response.json()["failures"]
            return failures

        return eventually(list_failures, lambda failures: len(failures) >= number)

    def inbox(self, user: str | None = None, **parameters: object) -> list[Json]:
        response = self.member.get(f"/users/{user or self.member.user}/inbox", params=parameters)
        assert response.status_code == 200, response.text
        messages: list[Json] = response.json().get("eventSnapshots", [])
        return messages


def create_observer_client(
    server: Server, channels: FakeChannels, organization: str | None = None, user: str = "anna"
) -> ObserverClient:
    """A user with all permissions, in a new organization unless one is named."""
    member = server.organization() if organization is None else server.member(organization, user=user)
    return ObserverClient(member, channels)
