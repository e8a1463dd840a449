"""The lake: the history, its reports, and manifests of loads.

A load is written to a staging directory first. Writing its manifest commits it: after that, this run or the next one
moves the staged files into place. Staged files without a manifest are deleted. In S3, reports may read the lake at the
same time: they leave out a load until all its files are in place.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from glue_jobs.lake.storage import Storage
from glue_jobs.transforms.commits import LoadedLog, Spans, merge_spans

EVENTS: Final = "events"
REPORTS: Final = "reports"
PARTIALS: Final = "_parts"
ORGANIZATIONS: Final = "_organizations.json"
"""Names of the organizations by server. On AWS the function that starts the load writes this file."""
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

    def complete_loads(self) -> list[Load]:
        """The loads whose files are all in place, oldest first. Can be called while another process loads exports.

        Files that were deleted from the lake, such as those of a retired organization, are left out.
        """
        loads = self.loads()
        # The staging directory of a load exists from before its manifest until all its files are in place.
        staged = self._staged()
        complete = [load for load in loads if str(load.number) not in staged]
        existing = set(self.storage.files(EVENTS))
        return [replace(load, files=[file for file in load.files if file.path in existing]) for load in complete]

    def organization_names(self) -> dict[int, str]:
        """Names of the organizations by server. Empty if they are not in the lake."""
        content = self.storage.read(ORGANIZATIONS)
        return {int(server): str(name) for server, name in json.loads(content or b"{}").items()}

    def recover(self) -> None:
        """Finish a committed load of an interrupted run, or delete its staged files."""
        staged = self._staged()
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

    def _staged(self) -> set[str]:
        """Numbers of the loads that have a staging directory."""
        return {folder.rpartition("/")[2] for folder in self.storage.folders(_STAGING)}

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
