"""The interface of the clients that follow feeds."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.clients.recorder import Feed, Recorder

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
NAMES = [
    *("message", "Torn"),
    *("start", "quorum_vote", "quorum_succeeded", "run_start", "run_complete", "job_complete", "rehab"),
    *("start_of_history", "summary"),
]
"""All event names of the feeds. An EventSource receives only events for which it has a listener."""


@dataclass(frozen=True, slots=True)
class FollowTask:
    """Follow these feeds of the server at `url`, and record what happens."""

    url: str
    token: str
    feeds: Sequence[Feed]
    recorder: Recorder

    def start(self, client: str) -> None:
        for feed in self.feeds:
            self.recorder.start(client, feed)

    def as_json(self) -> list[dict[str, Any]]:
        """The input of the JavaScript clients."""
        return [
            {"feed": feed.name, "url": self.url + feed.path, "token": self.token, "names": NAMES, "last": feed.last}
            for feed in self.feeds
        ]


class Client(Protocol):
    """A client that follows feeds in its own threads or processes."""

    name: str

    def missing(self) -> str | None:
        """The name of a missing program or package, or None."""

    def follow(self, task: FollowTask) -> AbstractContextManager[None]:
        """Follow the feeds while the block runs."""
