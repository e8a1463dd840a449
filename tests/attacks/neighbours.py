"""Two organizations on one server: one has secrets, the other has things of the very same names, and is curious."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.conformance.push.push_client import START
from tests.notifications.narration import job
from tests.notifications.outside import eventually
from tests.serving import Member, Server, serving

SECRET = "m4rk3r"
"""In all that the one has, and in nothing that the other may see."""
EVENTS = 7
"""What each of them has published."""

Json = dict[str, Any]


@dataclass
class Neighbours:
    """The server, an admin of each organization, and the numbers of their logs."""

    server: Server
    victim: Member
    thief: Member
    victims_log: int
    thiefs_log: int

    def guise(self, *groups: str, user: str = "anna") -> Member:
        """Somebody of the thief's organization with these groups only."""
        return self.server.member(self.thief.organization, groups=groups, user=user)


@contextmanager
def neighbours(data_dir: Path) -> Iterator[Neighbours]:
    """Both, with all that they have."""
    with serving(data_dir, KEEP_ALIVE_TIME="0.1", MAIL_FROM="annals@example.org") as server:
        victim, thief = server.member("victim"), server.member("thief")
        found = Neighbours(server, victim, thief, victim.create(), thief.create())
        furnish(thief, "plain")
        furnish(victim, SECRET)
        put_page(server, found.thiefs_log, "plain")
        put_page(server, found.victims_log, SECRET)
        yield found
        assert server.process.poll() is None


def furnish(member: Member, word: str) -> None:
    """Events of all vocabularies, objects, observers with what they told and what they could not; all say `word`."""
    put(member, "watch", {"channel": "app", "config": {"to": "anna", "note": word}})
    put(member, "broken", {"channel": "app", "config": {"to": word}, "filter": f"event.id / 0 or '{word}'"})
    post(member, "/events", {"events": [{"type": ["secret", word], "key": f"/{word}", "payload": _json(word)}]})
    post(member, "/events/job", {"events": [job("create", params={"word": word}), job("progress", state=word)]})
    post(member, "/events/job", {"events": [job("createJobSet", 1, jobs=[{"type": word, "node": word}])]})
    post(member, "/events/push", {"event": "start", "job": "p1", **START, "command": word})
    post(member, "/events/scheduler", {"TYPE": "OrderAdded", "key": "/chain,1", "nodeId": word})
    link = f"https://reports.example/{word}"
    post(member, "/events", {"events": [{"type": ["report", "ready", "report"], "payload": _json({"link": link})}]})
    eventually(lambda: _done(member), lambda done: done == [EVENTS, EVENTS])
    assert word in member.get("/users/anna/inbox").text
    assert word in member.get("/observers/broken/failures").text


def put(member: Member, name: str, configuration: Json) -> None:
    """Configure an observer."""
    answer = member.ask("PUT", f"/observers/{name}", json=configuration)
    assert answer.status_code in (200, 201), answer.text


def put_page(server: Server, log: int, word: str) -> None:
    """The report's page, where the jobs would put it."""
    folder = server.data_dir / "lake" / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"report-{log}.html").write_text(f"<p>{word}</p>")


def post(member: Member, path: str, body: Json) -> None:
    answer = member.ask("POST", path, json=body)
    assert answer.status_code == 201, answer.text


def said(answer: httpx.Response) -> str:
    """All of an answer that its reader sees; of a stream, its first piece."""
    return f"{answer.headers}{answer.text if answer.is_closed else next(answer.iter_text(), '')}"


def _json(data: object) -> Json:
    return {"type": "json", "data": data}


def _done(member: Member) -> list[int]:
    """How many deliveries of each observer are over."""
    counts = [one["deliveries"] for one in member.get("/observers").json()["observers"]]
    return [sum(count.values()) - count["waiting"] for count in counts]
