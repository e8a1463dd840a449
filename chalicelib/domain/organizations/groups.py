"""Access: the groups that may do things."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Groups:
    """The names that the groups go by in tokens. Admins may do everything."""

    publishers: frozenset[str]
    readers: frozenset[str]
    admins: frozenset[str]
