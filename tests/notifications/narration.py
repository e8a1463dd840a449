"""Jobs to tell about, and observers who do, over HTTP."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import trustme

from tests.notifications.outside import Json, Outside, eventually
from tests.serving import Member, Server

JOBS = """
jobs:
  backup: {label: Nightly backup}
  quiet: {silent: "1", label: Quiet}
  unmailed: {nomail: "1"}
  unslacked: {noslack: "1"}
  chatty: {mail_progress: "1"}
"""
"""The configuration of jobs, which every test's server has for the organization `local`."""
REST: dict[str, Json] = {
    "progress": {"state": "run"},
    "redirect": {"redirect": "n2"},
    "finish": {"success": "1", "message": "done"},
    "createJobSet": {"jobs": []},
    "progressJobSet": {"progress": "1/2"},
    "finishJobSet": {"jobs": []},
    "cleanJobSet": {"jobs": []},
}


def job(name: str, number: int = 1, /, **more: object) -> Json:
    """An event in AnyJob's JSON: say what matters, the rest is plausible."""
    typed = {} if name == "redirect" or name.endswith("JobSet") else {"type": "backup"}
    return {"event": name, "node": "n1", "id": number, **typed, **REST.get(name, {}), **more}


def settings(world: Outside, folder: Path, authority: trustme.CA, jobs: str = JOBS) -> dict[str, str]:
    """The environment of a server that tells this world."""
    folder.mkdir(parents=True, exist_ok=True)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    (folder / "observers.yaml").write_text(jobs)
    return {
        "SMTP_URL": f"smtp://127.0.0.1:{world.smtp_port}",
        "MAIL_FROM": "annals@example.org",
        "SLACK_HOSTS": f"private:localhost:{world.slack.port}",
        "SSL_CERT_FILE": str(folder / "authority.pem"),
        "OBSERVERS_FILE": str(folder / "observers.yaml"),
        "PUBLIC_URL": "https://annals.example/",
    }


@dataclass
class Teller:
    """Somebody who has observers, and publishes what they tell."""

    member: Member
    world: Outside

    @property
    def name(self) -> str:
        """The organization's name: whatever is named like it belongs to one test."""
        return self.member.organization

    @property
    def address(self) -> str:
        """A mail address that no other test uses."""
        return f"{self.name.lower()}@example.org"

    @property
    def channel(self) -> str:
        """A Slack channel that no other test uses."""
        return self.name

    def other(self, user: str, *groups: str) -> "Teller":
        """Somebody else in the same organization."""
        member = self.member.server.member(self.name, groups=groups or ["readers"], user=user)
        return Teller(member, self.world)

    def put(self, name: str, channel: str = "mail", /, **more: Any) -> Json:
        """Configure an observer; as it is shown."""
        answer = self.ask("PUT", name, self.configuration(channel, **more))
        assert answer.status_code in (200, 201), answer.text
        found: Json = answer.json()
        return found

    def configuration(self, channel: str = "mail", **more: Any) -> Json:
        """A configuration that tells this test."""
        config = {
            "mail": {"to": self.address},
            "slack": {"url": self.world.slack.url(self.channel)},
            "app": {} if more.get("scope") == "private" else {"to": self.member.user},
        }[channel]
        return {"channel": channel, **more, "config": {**config, **more.get("config", {})}}

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """A request about observers."""
        return self.member.ask(method, f"/observers/{path}", **({} if body is None else {"json": body}))

    def publish(self, *events: Json) -> list[int]:
        """Append events of jobs in one request; their EventIds."""
        answer = self.member.ask("POST", "/events/job", json={"events": events})
        assert answer.status_code == 201, answer.text
        return [event["eventId"] for event in answer.json()["events"]]

    def deliveries(self, name: str) -> dict[str, int]:
        """What has become of an observer's deliveries."""
        answer = self.ask("GET", name)
        assert answer.status_code == 200, answer.text
        found: dict[str, int] = answer.json()["deliveries"]
        return found

    def settled(self, name: str, number: int) -> dict[str, int]:
        """The same once so many deliveries are no longer waiting, without what is none."""
        found = eventually(
            lambda: self.deliveries(name), lambda them: not them["waiting"] and sum(them.values()) >= number
        )
        return {state: count for state, count in found.items() if count}

    def failures(self, name: str, number: int = 1) -> list[Json]:
        """Failed deliveries, once there are so many."""

        def found() -> list[Json]:
            answer = self.ask("GET", f"{name}/failures")
            assert answer.status_code == 200, answer.text
            listed: list[Json] = answer.json()["failures"]
            return listed

        return eventually(found, lambda them: len(them) >= number)

    def inbox(self, user: str | None = None, **parameters: object) -> list[Json]:
        """What a user was told in the app."""
        answer = self.member.get(f"/users/{user or self.member.user}/inbox", params=parameters)
        assert answer.status_code == 200, answer.text
        found: list[Json] = answer.json().get("eventSnapshots", [])
        return found


def teller(server: Server, world: Outside, organization: str | None = None, user: str = "anna") -> Teller:
    """Somebody with every right in a new organization, or in one that is there."""
    member = server.organization() if organization is None else server.member(organization, user=user)
    return Teller(member, world)
