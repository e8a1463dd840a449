"""The groups that grant permissions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Groups:
    """The names of the groups in tokens. Admins may do everything."""

    publishers: frozenset[str]
    readers: frozenset[str]
    admins: frozenset[str]
