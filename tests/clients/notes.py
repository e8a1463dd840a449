"""Notes: what the clients tell of the feeds they follow, as it comes."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PATIENCE_S = 90.0
"""How long anything may take: clients wait up to three seconds before they come back, and the machine may be busy."""
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Feed:
    """What is followed, and with which event it is over for its client, if it ever is."""

    name: str
    path: str
    last: str | None = None


class Seen(NamedTuple):
    """An event as its client got it."""

    event: str
    id: str
    data: Any

    @property
    def event_id(self) -> int:
        """The EventId in its id; 0 if it has none."""
        number = self.id.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0


@dataclass
class Diary:
    """How one client fared with one feed."""

    opened: int = 0
    """How many times it got an answer."""
    lost: int = 0
    """How many answers ended, or did not come."""
    gave_up: str | None = None
    """Why it will not come back."""
    seen: list[Seen] = field(default_factory=list)

    def reaches(self, event_id: int) -> bool:
        """Whether it has seen that event, or a later one."""
        return bool(self.seen) and self.seen[-1].event_id >= event_id

    def __str__(self) -> str:
        last = self.seen[-1] if self.seen else "nothing"
        return f"opened {self.opened}, lost {self.lost}, gave up {self.gave_up}, saw {len(self.seen)}, last {last}"


class Notes:
    """The diaries of all clients; any thread may write and wait."""

    def __init__(self) -> None:
        self.diaries: dict[tuple[str, str], Diary] = {}
        """By client and feed."""
        self._changed = threading.Condition()

    def begin(self, client: str, feed: Feed) -> None:
        """A client is about to follow the feed."""
        with self._changed:
            self.diaries[client, feed.name] = Diary()

    def tell(self, client: str, told: dict[str, Any]) -> None:
        """Note what a client tells: see `with_event_source.js`."""
        with self._changed:
            diary = self.diaries[client, told["feed"]]
            match told:
                case {"event": str(event), "id": str(id_), "data": str(data)}:
                    diary.seen.append(Seen(event, id_, json.loads(data)))
                case {"open": True}:
                    diary.opened += 1
                case {"lost": _}:
                    diary.lost += 1
                case _:
                    diary.gave_up = str(told)
            self._changed.notify_all()

    def wait(self, what: str, is_so: Callable[[Diary], bool]) -> None:
        """Wait until it is so for all of them; a failure if one gives up before, or time does."""
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while waiting := [f"{who}: {diary}" for who, diary in self.diaries.items() if not is_so(diary)]:
                assert not self.failures, f"before {what}: {self.failures}"
                assert time.monotonic() < deadline, "\n".join([f"still not {what}:", *waiting])
                self._changed.wait(_LOOK_S)

    def wait_for_event(self, event_id: int) -> None:
        """Wait until all have seen that event, or a later one."""
        self.wait(f"told of {event_id} or what came later", lambda diary: diary.reaches(event_id))

    @property
    def failures(self) -> list[str]:
        """Those that gave up."""
        return [f"{who}: {diary}" for who, diary in self.diaries.items() if diary.gave_up is not None]
