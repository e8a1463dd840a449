"""Cursors: where the next page of a snapshot begins."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import EventId
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef

DIGEST_BYTES = 3


@dataclass(frozen=True, slots=True)
class Scope:
    """Short digests of the query to which a cursor belongs. They detect mistakes of clients, not forgeries."""

    organization: str
    collection: str
    path: str

    @classmethod
    def of_query(
        cls, server: int, collections: Sequence[str], paths: PathQuery, selected: ListFilter | None = None
    ) -> Self:
        texts = sorted(pattern.text for pattern in paths.patterns)
        filters = () if selected is None else (selected,)
        return cls(digest(server), digest(*collections), digest(*texts, *filters))


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next page begins."""

    session: int
    """The commit as of which the snapshot shows the objects."""
    event_id: int
    """The last EventId of that commit."""
    after: ObjectRef
    """The last object that earlier pages have covered."""
    scope: Scope

    def __str__(self) -> str:
        """The cursor as text for clients, who pass it back unchanged."""
        scope = (self.scope.organization, self.scope.collection, self.scope.path)
        return urlsafe_b64encode(to_json((self.session, self.event_id, *self.after, *scope))).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, scope: Scope) -> Self:
        """The inverse of `str`. Raises `BadInput` for other text, and for the cursor of a query with another scope."""
        members = TypeAdapter(tuple[EventId, EventId, str, str, str, str, str])
        try:
            session, event_id, collection, path, *digests = members.validate_json(
                urlsafe_b64decode(text + "=" * (-len(text) % 4))
            )
        except (ValidationError, ValueError) as error:
            raise BadInput("cursor: use the cursor of the previous page unchanged") from error
        cursor = cls(session, event_id, ObjectRef(collection, path), Scope(*digests))
        for part in ("organization", "collection", "path"):
            if getattr(cursor.scope, part) != getattr(scope, part):
                raise BadInput(
                    f"cursor: it belongs to another {part}; use it with the organization, collection, path and filters "
                    "of the previous page, or start again without cursor"
                )
        return cursor


def digest(*parts: object) -> str:
    """A short digest of JSON values."""
    return urlsafe_b64encode(blake2b(to_json(parts), digest_size=DIGEST_BYTES).digest()).decode()
