"""Records: the items that views consist of.

Each record has a version, so that applying the same commits to it again changes nothing and concurrent writers
cannot overwrite each other.
"""

import zlib
from dataclasses import dataclass, replace
from typing import Self

from pydantic_core import from_json, to_json

from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.events.head import Head

MAX_CHARACTER = "\U0010ffff"
"""`prefix + MAX_CHARACTER` sorts after every string that starts with `prefix`."""

VIEW_FORMAT = 9
"""Increase it when the content of the views changes, including a new vocabulary: the views are then rebuilt."""

PROJECTOR = f"project-{VIEW_FORMAT}"
"""Name of the consumer that builds the views."""

LATEST_VIEW = "latest"
BLOCKS_VIEW = "block"
TIMES_VIEW = "time"
SESSIONS_VIEW = "sessions"
RUNS_VIEW = "run"
"""The view with the end of the current run, on which all projectors agree before they start it."""

_GENERATION_UNIT = 2**44
"""A checkpoint's version is `generation * _GENERATION_UNIT + session`, so a rebuild always raises it."""


@dataclass(frozen=True, slots=True)
class Record:
    """An item of a view."""

    view: str
    item: str
    version: int
    """The last session that is folded into the record."""
    data: str
    """JSON."""

    @property
    def server(self) -> int:
        """The number of the log, with which the names of all views start."""
        return int(self.view.partition("/")[0].partition(".")[0])

    @property
    def checksum(self) -> int:
        """The CRC-32 of the whole record. The stores keep it beside the record and verify it on every read."""
        return zlib.crc32(f"{self.view}\0{self.item}\0{self.version}\0{self.data}".encode())

    def verify(self, checksum: object) -> Self:
        """Return the record, or raise `DamagedRecord` if the stored checksum is another one."""
        if checksum != self.checksum:
            raise DamagedRecord(self.view, self.item, self.version)
        return self


@dataclass(frozen=True, slots=True)
class ConditionalWrite:
    """A record to store if the stored one still has `expected_version` (None: if there is none)."""

    record: Record
    expected_version: int | None
    expires_s: int | None = None
    """When the store may delete the record, in seconds since 1970. None: never. Only DynamoDB does it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A consumer's position in a log. The names of the views that it builds contain its `generation`."""

    head: Head
    generation: int = 1
    record_version: int | None = None
    """Version of the stored record, None if there is none."""
    part: str = ""
    """How much of the commit after `head` is done, in the consumer's notation. Empty: nothing."""
    collections: frozenset[str] = frozenset()
    """The collections that have objects in the views. Readers need not look for objects of others."""
    switched_at_ms: int = 0
    """When these views replaced others that are not deleted yet. 0: there are none."""
    begun_at_ms: int = 0
    """When the first run of these views ended. 0: it has not."""
    latest_key_ms: int = 0
    """No commit up to `head` has an idempotency key with a later time, see `key_time.py`. Only of the projector."""

    @classmethod
    def from_record(cls, server: int, record: Record | None) -> Self:
        """The checkpoint at the start of the log if there is no record."""
        if record is None:
            return cls(Head(server))
        data = from_json(record.data)
        generation, session = divmod(record.version, _GENERATION_UNIT)
        head, collections = Head(server, session, data["n"], data["last"], data.get("p")), frozenset(data.get("c", ()))
        times = data.get("s", 0), data.get("b", 0), data.get("k", 0)
        return cls(head, generation, record.version, data.get("part", ""), collections, *times)

    def follows(self, earlier: "Checkpoint") -> bool:
        """Whether the views of `earlier` still exist and were only extended since."""
        return self.generation == earlier.generation and self.head.session >= earlier.head.session

    @staticmethod
    def generation_of(record_version: int) -> int:
        return record_version // _GENERATION_UNIT

    def at(self, head: Head, part: str = "") -> Self:
        """The same checkpoint at another position."""
        return replace(self, head=head, part=part)

    def advance(self, consumer: str, head: Head) -> ConditionalWrite:
        """Move the checkpoint to `head`, unless another process has changed it."""
        return self.at(head).to_write(consumer, self.record_version)

    def to_write(self, consumer: str, expected_version: int | None) -> ConditionalWrite:
        """Store this checkpoint in place of the record with `expected_version`."""
        head = self.head
        data: dict[str, object] = {"n": head.instance, "last": head.last_event_id}
        data |= {} if head.position is None else {"p": head.position}
        data |= {"part": self.part} if self.part else {}
        data |= {"c": sorted(self.collections)} if self.collections else {}
        data |= {"s": self.switched_at_ms} if self.switched_at_ms else {}
        data |= {"b": self.begun_at_ms} if self.begun_at_ms else {}
        data |= {"k": self.latest_key_ms} if self.latest_key_ms else {}
        version = self.generation * _GENERATION_UNIT + head.session
        record = Record(checkpoints_view(head.server), consumer, version, to_json(data).decode())
        return ConditionalWrite(record, expected_version)

    def view_name(self, kind: str) -> str:
        """The full name of a view of this generation."""
        return f"{self.head.server}.{VIEW_FORMAT}.{self.generation}/{kind}"


def checkpoints_view(server: int) -> str:
    """The view with the checkpoints of a server's consumers."""
    return f"{server}/checkpoint"


def objects_view(collection: str) -> str:
    """The kind of the view with the objects of a collection."""
    return f"object:{collection}"


def list_view(collection: str) -> str:
    """The kind of the view with the list index of a collection."""
    return f"list:{collection}"
