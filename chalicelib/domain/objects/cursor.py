"""Cursors: where the next page of a snapshot begins."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import EventId
from chalicelib.domain.objects.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next page begins."""

    session: int
    """The commit as of which the snapshot shows the objects."""
    event_id: int
    """The last EventId of that commit."""
    after: ObjectRef
    """The last object that earlier pages have covered."""

    def __str__(self) -> str:
        """The cursor as text for clients, who pass it back unchanged."""
        return urlsafe_b64encode(to_json((self.session, self.event_id, *self.after))).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`. Raises `BadInput`."""
        members = TypeAdapter(tuple[EventId, EventId, str, str])
        try:
            session, event_id, collection, path = members.validate_json(
                urlsafe_b64decode(text + "=" * (-len(text) % 4))
            )
        except (ValidationError, ValueError) as error:
            raise BadInput("cursor: use the cursor of the previous page unchanged") from error
        return cls(session, event_id, ObjectRef(collection, path))
