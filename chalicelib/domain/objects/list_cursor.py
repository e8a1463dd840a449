"""List cursors: where the next page of a list begins."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import NamedTuple, Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import EventId

IN_MEMORY = -1
"""The ordinal of a cursor of a list that was not read from the index."""

_MEMBERS = TypeAdapter(tuple[EventId, EventId, EventId, int, int, int, str, str, str])


class ListKey(NamedTuple):
    """The position of an object in a list: by last change (descending), then by time (descending), then by path."""

    session: int
    updated_at: str
    path: str

    def is_after(self, other: "ListKey") -> bool:
        """Whether this position is behind `other` in a list."""
        return (-self.session, other.updated_at, self.path) > (-other.session, self.updated_at, other.path)


@dataclass(frozen=True, slots=True)
class ListCursor:
    """Where the next page of a list begins."""

    session: int
    """The commit as of which the list shows the objects."""
    event_id: int
    """The last EventId of that commit."""
    base: int
    """The session of the checkpoint when the first page was read. Later changes are read from the log."""
    generation: int
    """The generation of the views of the first page."""
    ordinal: int
    """Earlier pages have covered the entries of the list index from this one on."""
    after: ListKey
    """The last object that earlier pages have covered, or the position of it."""
    scope: str
    """Digest of the query to which the cursor belongs. It detects mistakes of clients, not forgeries."""

    def __str__(self) -> str:
        """The cursor as text for clients, who pass it back unchanged."""
        position = (self.session, self.event_id, self.base, self.generation, self.ordinal)
        return urlsafe_b64encode(to_json((*position, *self.after, self.scope))).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, scope: str) -> Self:
        """The inverse of `str`. Raises `BadInput` for other text, and for the cursor of another query."""
        try:
            values = _MEMBERS.validate_json(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (ValidationError, ValueError) as error:
            raise BadInput("cursor: use the cursor of the previous page unchanged") from error
        session, event_id, base, generation, ordinal, *_, cursor_scope = values
        if base > session or ordinal < IN_MEMORY:
            raise BadInput("cursor: use the cursor of the previous page unchanged")
        if cursor_scope != scope:
            raise BadInput(
                "cursor: it belongs to another list; use it with the organization, collection, path and filters of the "
                "previous page, or start again without cursor"
            )
        return cls(session, event_id, base, generation, ordinal, ListKey(*values[5:8]), cursor_scope)
