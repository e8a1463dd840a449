"""Two organizations on one server with objects of the same names. An admin of one attacks the other."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.conformance.push.push_client import START
from tests.notifications.fake_channels import eventually
from tests.notifications.observer_client import job
from tests.serving import Member, Server, run_server

SECRET = "m4rk3r"
"""A marker in all data of the victim."""
EVENT_COUNT = 8
"""Number of events that each organization has published."""

Json = dict[str, Any]


@dataclass
class TwoOrganizations:
    """The server, an admin of each organization, and the numbers of their logs."""

    server: Server
    victim: Member
    attacker: Member
    victim_log: int
    attacker_log: int

    def attacker_with(self, *groups: str, user: str = "anna") -> Member:
        """A member of the attacker's organization with only these groups."""
        return self.server.member(self.attacker.organization, groups=groups, user=user)


@contextmanager
def two_organizations(data_dir: Path) -> Iterator[TwoOrganizations]:
    with run_server(data_dir, KEEP_ALIVE_TIME="0.1", MAIL_FROM="annals@example.org") as server:
        victim, attacker = server.member("victim"), server.member("attacker")
        both = TwoOrganizations(server, victim, attacker, victim.create(), attacker.create())
        populate(attacker, "plain")
        populate(victim, SECRET)
        put_page(server, both.attacker_log, "plain")
        put_page(server, both.victim_log, SECRET)
        yield both
        assert server.process.poll() is None


def populate(member: Member, word: str) -> None:
    """Create events of all vocabularies, objects, observers, messages and failed deliveries that contain `word`."""
    put_observer(member, "watch", {"channel": "app", "config": {"to": "anna", "note": word}})
    put_observer(member, "broken", {"channel": "app", "config": {"to": word}, "filter": f"event.id / 0 or '{word}'"})
    expectation = {"type": "backup", "every": "1h", "description": word}
    assert member.request("PUT", "/expectations/watch", json=expectation).status_code == 201
    post(member, "/silences", {"type": word, "until": "2099-01-01T00:00:00Z", "comment": word})
    post(member, "/events", {"events": [{"type": ["secret", word], "key": f"/{word}", "payload": _json(word)}]})
    post(member, "/events/job", {"events": [job("create", params={"word": word}), job("progress", state=word)]})
    post(member, "/events/job", {"events": [job("createJobSet", 1, jobs=[{"type": word, "node": word}])]})
    post(member, "/events/push", {"event": "start", "job": "p1", **START, "command": word})
    post(member, "/events/scheduler", {"TYPE": "OrderAdded", "key": "/chain,1", "nodeId": word})
    link = f"https://reports.example/{word}"
    post(member, "/events", {"events": [{"type": ["report", "ready", "report"], "payload": _json({"link": link})}]})
    eventually(lambda: _finished_deliveries(member), lambda counts: counts == [2 * EVENT_COUNT, EVENT_COUNT])
    assert word in member.get("/users/anna/inbox").text
    assert word in member.get("/observers/broken/failures").text


def put_observer(member: Member, name: str, configuration: Json) -> None:
    response = member.request("PUT", f"/observers/{name}", json=configuration)
    assert response.status_code in (200, 201), response.text


def put_page(server: Server, log: int, word: str) -> None:
    """Write a report page to the location of the Spark jobs."""
    folder = server.data_dir / "lake" / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"report-{log}.html").write_text(f"<p>{word}</p>")


def post(member: Member, path: str, body: Json) -> None:
    response = member.request("POST", path, json=body)
    assert response.status_code == 201, response.text


def visible_text(response: httpx.Response) -> str:
    """The headers and the body of a response. Of an open stream, only the first piece."""
    return f"{response.headers}{response.text if response.is_closed else next(response.iter_text(), '')}"


def _json(data: object) -> Json:
    return {"type": "json", "data": data}


def _finished_deliveries(member: Member) -> list[int]:
    """Number of finished deliveries of each observer."""
    counts = [observer["deliveries"] for observer in member.get("/observers").json()["observers"]]
    return [sum(count.values()) - count["waiting"] for count in counts]
