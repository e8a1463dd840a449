"""Which events a reader or an append condition means: by type and by key."""

from typing import Annotated

from pydantic import AfterValidator, Field

from chalicelib.domain.event_types import Pattern, matches
from chalicelib.domain.events import Event, Key
from chalicelib.domain.model import Model


def _in_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(keys)))


class Selection(Model):
    """Events whose type matches one of `types` and whose key is one of `keys`; what is absent selects all.

    An empty list is not absent: it selects nothing.
    """

    types: Annotated[tuple[Pattern, ...], Field(max_length=100)] | None = None
    keys: Annotated[tuple[Key, ...], Field(max_length=100), AfterValidator(_in_order)] | None = None

    @property
    def everything(self) -> bool:
        """Whether no event can fail."""
        return self.keys is None and (self.types is None or ("*",) in self.types)

    def selects(self, event: Event) -> bool:
        """Tell whether `event` is meant."""
        stored = event.stored
        return (self.keys is None or stored.key in self.keys) and (
            self.types is None or any(matches(stored.type, pattern) for pattern in self.types)
        )
