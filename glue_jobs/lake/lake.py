"""The lake: the history, its reports, and manifests of loads.

A load is written to a staging directory first. Writing its manifest commits it: after that, this run or the next one
moves the staged files into place. Staged files without a manifest are deleted.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from glue_jobs.lake.storage import Storage
from glue_jobs.transforms.commits import LoadedLog, Spans, merge_spans

EVENTS: Final = "events"
REPORTS: Final = "reports"
PARTIALS: Final = "_parts"
_MANIFESTS: Final = "_exports"
_STAGING: Final = "_aside"


@dataclass(frozen=True, slots=True)
class EventFile:
    """A file of the history."""

    server: int
    day: str
    name: str
    events: int
    spans: Spans
    last_at: int
    """The `at` of the last session."""

    @property
    def path(self) -> str:
        """Final path in the lake."""
        return f"{EVENTS}/server={self.server}/day={self.day}/{self.name}"


@dataclass(frozen=True, slots=True)
class Load:
    """A manifest: the exports that were loaded together, and the files with their events."""

    number: int
    exports: Sequence[str]
    files: Sequence[EventFile]

    @property
    def days(self) -> set[tuple[int, str]]:
        """Pairs of server and day that the load added events to."""
        return {(file.server, file.day) for file in self.files}


@dataclass(frozen=True, slots=True)
class Lake:
    """The directory of the history and its reports."""

    url: str

    @property
    def storage(self) -> Storage:
        return Storage(self.url)

    def loads(self) -> list[Load]:
        """All loads, oldest first."""
        loads = []
        for path in self.storage.files(_MANIFESTS):
            content = self.storage.read(path)
            if path.endswith(".json") and content is not None:
                loads.append(_load(content))
        return sorted(loads, key=lambda load: load.number)

    def recover(self) -> None:
        """Finish a committed load of an interrupted run, or delete its staged files."""
        staged = {folder.rpartition("/")[2] for folder in self.storage.folders(_STAGING)}
        for load in self.loads():
            if str(load.number) in staged:
                self._move_into_place(load)
        self.storage.remove(_STAGING)

    def staging(self, number: int) -> Storage:
        """Staging directory of a load."""
        return Storage(f"{self.url}/{_STAGING}/{number}")

    def commit(self, load: Load) -> None:
        """Write the manifest of a load, then move its files into place."""
        self.storage.write(f"{_MANIFESTS}/{load.number:08d}.json", json.dumps(asdict(load), indent=1).encode())
        self._move_into_place(load)
        self.storage.remove(f"{_STAGING}/{load.number}")

    def _move_into_place(self, load: Load) -> None:
        for file in load.files:
            self.storage.move(f"{_STAGING}/{load.number}/{file.path}", file.path)


def loaded_logs(loads: Iterable[Load]) -> dict[int, LoadedLog]:
    """The loaded sessions of each server."""
    spans: dict[int, list[tuple[int, int]]] = {}
    times: dict[int, dict[int, int]] = {}
    for file in (file for load in loads for file in load.files):
        spans.setdefault(file.server, []).extend(file.spans)
        times.setdefault(file.server, {})[file.spans[-1][1]] = file.last_at
    return {server: LoadedLog(merge_spans(server_spans), times[server]) for server, server_spans in spans.items()}


def _load(content: bytes) -> Load:
    entry = json.loads(content)
    files = [
        EventFile(**{**file, "spans": [(first, last) for first, last in file["spans"]]}) for file in entry["files"]
    ]
    return Load(entry["number"], entry["exports"], files)
