"""Exports of the table on AWS: which span of time each one covers, and how far it has come.

Each begins where the one before ended. The first is full; the others hold what was written in their span, which AWS
allows to be 15 minutes to 24 hours long.
"""

from typing import Final, Literal

from pydantic_core import from_json

from chalicelib.domain.exports.export import FULL, INCREMENTAL, Kind
from chalicelib.domain.model import Model
from chalicelib.domain.views.record import Change, Record

SHORTEST_S: Final = 15 * 60
LONGEST_S: Final = 24 * 3600
BEHIND_S: Final = 5 * 60
"""So recent is what AWS may not be able to export yet."""
AGAIN_S: Final = 15 * 60
"""Whoever wanted to start the jobs, and has not said for so long that they started, is gone."""

VIEW: Final = "exports"
"""Of the records that are the ledger; each is found by where its span begins, so that no two spans do at one place."""

State = Literal["planned", "started", "arrived", "loading", "loaded"]


class TableExport(Model):
    """One export. `planned`, then `started`, then `arrived` as files; `loading`, then `loaded` into the history."""

    begin_s: int
    """Where the one before ended; 0 if there is none."""
    to_s: int
    kind: Kind
    state: State = "planned"
    since_s: int
    """When it got into this state."""
    tries: int = 1
    arn: str = ""
    run: str = ""
    """The run of the job that loads it."""

    @property
    def id(self) -> str:
        """The name of its directory among the exports; nothing while it has none."""
        return self.arn.rpartition("/")[2]

    @property
    def token(self) -> str:
        """The same for the same try: asked for twice, it is exported once."""
        return f"{self.begin_s}-{self.to_s}-{self.tries}"


class Entry(Model):
    """An export in the ledger."""

    export: TableExport
    version: int

    @classmethod
    def of(cls, record: Record) -> "Entry":
        """What the record says."""
        return cls(export=TableExport.model_validate(from_json(record.data)), version=record.to)

    def became(self, now_s: int, state: State, **changes: object) -> "Entry":
        """The entry once the export is in another state."""
        export = self.export.model_copy(update={"state": state, "since_s": now_s, **changes})
        return Entry(export=export, version=self.version + 1)

    def change(self) -> Change:
        """The entry as a record, in the place of the version before."""
        export = self.export
        record = Record(VIEW, f"{export.begin_s:012d}", self.version, export.model_dump_json())
        return Change(record, self.version - 1 or None)


def next_entry(last: TableExport | None, now_s: int) -> Entry | None:
    """The export that is to follow the last one; None if it is too early for that."""
    latest_s = now_s - BEHIND_S
    if last is None:
        return _planned(0, latest_s, FULL, now_s)
    if latest_s - last.to_s < SHORTEST_S:
        return None
    return _planned(last.to_s, min(latest_s, last.to_s + LONGEST_S), INCREMENTAL, now_s)


def again(entry: Entry, now_s: int) -> Entry:
    """The export is tried once more, for AWS failed to do it."""
    return entry.became(now_s, "planned", arn="", tries=entry.export.tries + 1)


def instead(entry: Entry, now_s: int) -> Entry:
    """A full export in the place of one whose span AWS does not remember any more."""
    return entry.became(now_s, "planned", arn="", tries=entry.export.tries + 1, kind=FULL, to_s=now_s - BEHIND_S)


def _planned(begin_s: int, to_s: int, kind: Kind, now_s: int) -> Entry:
    return Entry(export=TableExport(begin_s=begin_s, to_s=to_s, kind=kind, since_s=now_s), version=1)
