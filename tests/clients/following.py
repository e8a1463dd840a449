"""Following: what a client is asked to do, whichever it is."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.clients.notes import Feed, Notes

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
NAMES = [
    *("message", "Torn"),
    *("start", "quorum_vote", "quorum_succeeded", "run_start", "run_complete", "job_complete", "rehab"),
    *("start_of_history", "summary"),
]
"""All events that a feed may have: an EventSource gets those it asks for."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Follow these feeds of the server at `url`, and tell."""

    url: str
    token: str
    feeds: Sequence[Feed]
    notes: Notes

    def begin(self, client: str) -> None:
        """The client is about to follow them."""
        for feed in self.feeds:
            self.notes.begin(client, feed)

    def as_json(self) -> list[dict[str, Any]]:
        """What the scripts are told."""
        return [
            {"feed": feed.name, "url": self.url + feed.path, "token": self.token, "names": NAMES, "last": feed.last}
            for feed in self.feeds
        ]


class Client(Protocol):
    """Something that follows feeds, with threads or processes of its own."""

    name: str

    def missing(self) -> str | None:
        """What this machine would need for it."""

    def following(self, errand: Errand) -> AbstractContextManager[None]:
        """Follow the feeds while the block runs."""
