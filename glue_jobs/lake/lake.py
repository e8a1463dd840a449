"""The lake: the history and its reports, and the book of what was loaded.

A load is written aside first. Then one file, its entry in the book, says what belongs to it: from there on it is a
fact, and whoever comes next puts in place what is not yet there. Without an entry what was written aside is rubbish.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from glue_jobs.lake.storage import Storage
from glue_jobs.transforms.commits import Known, Spans, joined_spans

EVENTS: Final = "events"
REPORTS: Final = "reports"
PARTS: Final = "_parts"
_BOOK: Final = "_exports"
_ASIDE: Final = "_aside"


@dataclass(frozen=True, slots=True)
class EventFile:
    """A file of the history."""

    server: int
    day: str
    name: str
    events: int
    spans: Spans
    """The sessions in it."""
    last_at: int
    """The `at` of the last of them."""

    @property
    def path(self) -> str:
        """Where it is, or will be."""
        return f"{EVENTS}/server={self.server}/day={self.day}/{self.name}"


@dataclass(frozen=True, slots=True)
class Load:
    """An entry of the book: the exports that were loaded together, and the files that they became."""

    number: int
    exports: Sequence[str]
    files: Sequence[EventFile]

    @property
    def days(self) -> set[tuple[int, str]]:
        """Which days of which servers it added to."""
        return {(file.server, file.day) for file in self.files}


@dataclass(frozen=True, slots=True)
class Lake:
    """A directory with all that was exported."""

    url: str

    @property
    def storage(self) -> Storage:
        """Where it is."""
        return Storage(self.url)

    def loads(self) -> list[Load]:
        """What was loaded, from early to late."""
        found = []
        for path in self.storage.files(_BOOK):
            content = self.storage.read(path)
            if path.endswith(".json") and content is not None:
                found.append(_load(content))
        return sorted(found, key=lambda load: load.number)

    def recover(self) -> None:
        """Bring to its end what an earlier load has left, or remove it."""
        left = {folder.rpartition("/")[2] for folder in self.storage.folders(_ASIDE)}
        for load in self.loads():
            if str(load.number) in left:
                self._put_in_place(load)
        self.storage.remove(_ASIDE)

    def aside(self, number: int) -> Storage:
        """Where the files of a load are written first."""
        return Storage(f"{self.url}/{_ASIDE}/{number}")

    def keep(self, load: Load) -> None:
        """Enter the load in the book, and put its files in their places."""
        self.storage.write(f"{_BOOK}/{load.number:08d}.json", json.dumps(asdict(load), indent=1).encode())
        self._put_in_place(load)
        self.storage.remove(f"{_ASIDE}/{load.number}")

    def _put_in_place(self, load: Load) -> None:
        for file in load.files:
            self.storage.move(f"{_ASIDE}/{load.number}/{file.path}", file.path)


def known_logs(loads: Iterable[Load]) -> dict[int, Known]:
    """What was loaded of each server."""
    spans: dict[int, list[tuple[int, int]]] = {}
    times: dict[int, dict[int, int]] = {}
    for file in (file for load in loads for file in load.files):
        spans.setdefault(file.server, []).extend(file.spans)
        times.setdefault(file.server, {})[file.spans[-1][1]] = file.last_at
    return {server: Known(joined_spans(found), times[server]) for server, found in spans.items()}


def _load(content: bytes) -> Load:
    entry = json.loads(content)
    files = [
        EventFile(**{**file, "spans": [(first, last) for first, last in file["spans"]]}) for file in entry["files"]
    ]
    return Load(entry["number"], entry["exports"], files)
