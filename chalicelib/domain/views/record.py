"""Records: what views are made of. Each says how far it is folded, so that folding on is safe to repeat."""

from dataclasses import dataclass, replace
from typing import Self

from pydantic_core import from_json, to_json

from chalicelib.domain.events.head import Head

END = "\U0010ffff"
"""Greater than any text that goes on."""


FORMAT = 3
"""Of the views. Whoever changes what they hold, a new vocabulary included, counts it up: they are then built anew."""

PROJECT = f"project-{FORMAT}"
"""The consumer that builds the views."""

_GENERATION = 2**44
"""A checkpoint's record counts generations above sessions, so that it tells apart what it must not mix up."""


@dataclass(frozen=True, slots=True)
class Record:
    """An item of a view."""

    view: str
    item: str
    to: int
    """The session up to which it is folded."""
    data: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class Change:
    """A record to write, if the stored one is still folded to `was` (None: if there is none)."""

    record: Record
    was: int | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a consumer has come; the views that it built carry its `generation` in their names."""

    head: Head
    generation: int = 1
    was: int | None = None
    """What its record says now, so that a change of it can be refused if another was first."""

    @classmethod
    def of(cls, server: int, record: Record | None) -> Self:
        """What the record says; nothing yet if there is none."""
        if record is None:
            return cls(Head(server))
        data = from_json(record.data)
        generation, session = divmod(record.to, _GENERATION)
        return cls(Head(server, session, data["n"], data["last"]), generation, record.to)

    def moved(self, consumer: str, head: Head) -> Change:
        """The checkpoint moved to `head`, unless somebody else moves it first."""
        return replace(self, head=head).change(consumer, self.was)

    def change(self, consumer: str, was: int | None) -> Change:
        """The checkpoint as a record, in the place of one that `was`."""
        head = self.head
        data = to_json({"n": head.instance, "last": head.last}).decode()
        return Change(
            Record(checkpoints(head.server), consumer, self.generation * _GENERATION + head.session, data), was
        )

    def view(self, kind: str) -> str:
        """The name of one of the views built so far."""
        return f"{self.head.server}.{FORMAT}.{self.generation}/{kind}"


def checkpoints(server: int) -> str:
    """The view with the checkpoints of a server's consumers."""
    return f"{server}/checkpoint"


def objects_view(collection: str) -> str:
    """The kind of view with the objects of a collection."""
    return f"object:{collection}"


LATEST = "latest"
BLOCKS = "block"
SESSIONS = "sessions"
