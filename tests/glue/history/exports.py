"""Writes exports in DynamoDB's format, and computes the expected rows of the history.

Shares no code with the tested modules. The expected rows are computed from the commits that the exports are made of.
"""

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = "AWSDynamoDB"
SUMMARY = "manifest-summary.json"
FILES = "manifest-files.json"

NOON_US = 1_793_534_400_000_000
"""1 November 2026, 12:00."""
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

Item = dict[str, dict[str, Any]]
Row = tuple[int, str, int, int, int, int, tuple[str, ...], str | None, int | None, str | None]
"""server, day, session, instance, event_id, at, type, key, source_timestamp, payload; times in microseconds."""

_COLUMNS = pa.schema(
    [
        ("session", pa.int64()),
        ("instance", pa.int32()),
        ("event_id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("type", pa.list_(pa.string())),
        ("key", pa.string()),
        ("source_timestamp", pa.timestamp("us", "UTC")),
        ("payload", pa.string()),
    ]
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """An event as published. Its payload is JSON text."""

    type: tuple[str, ...] = ("job", "create")
    key: str | None = "/job/1"
    source: str | None = None
    payload: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The event as the log stores it."""
        head = {"type": self.type, "key": self.key, "sourceTimestamp": self.source}
        tags = f',"tags":{_json(self.tags)}' if self.tags else ""
        return f'{_json(head)[:-1]},"payload":{"null" if self.payload is None else self.payload}{tags}}}'


@dataclass(frozen=True, slots=True)
class Commit:
    server: int
    session: int
    events: tuple[Event, ...] = (Event(),)
    at: int = 0
    """0 means an hour after the previous session."""
    deflated: bool = False
    more: tuple[tuple[str, str, str], ...] = ()
    """Additional attributes: name, type and value."""

    @property
    def begin_us(self) -> int:
        """EventId of the first event."""
        return self.at or NOON_US + self.session * HOUR_US

    @property
    def body(self) -> str:
        """The events as the log stores them."""
        return "[" + ",\n".join(event.text for event in self.events) + "]"

    @property
    def item(self) -> Item:
        """The DynamoDB item."""
        item: Item = {
            "server": {"N": str(self.server)},
            "session": {"N": str(self.session)},
            "at": {"N": str(self.begin_us)},
            "n": {"N": str(len(self.events))},
            "prev": {"N": "0"},
            "req": {"S": f"request-{self.session}"},
        }
        z = base64.b64encode(zlib.compress(self.body.encode())).decode()
        content: Item = {"z": {"B": z}} if self.deflated else {"body": {"S": self.body}}
        return item | content | {name: {kind: value} for name, kind, value in self.more}

    @property
    def rows(self) -> list[Row]:
        """The expected rows of the history."""
        at = self.begin_us
        day = (_EPOCH + timedelta(microseconds=at)).date().isoformat()
        return [
            (
                self.server,
                day,
                self.session,
                index + 1,
                at + index,
                at,
                one.type,
                one.key,
                _time(one.source),
                one.payload,
            )
            for index, one in enumerate(self.events)
        ]


def make_commits(server: int, sessions: Iterable[int], events: int = 2) -> list[Commit]:
    """Different commits, every third of them deflated."""
    return [
        Commit(
            server,
            session,
            tuple(
                Event(
                    ("job", "progress", str(index)),
                    f"/job/{session}",
                    None,
                    _json({"type": "json", "data": {"server": server, "session": session, "place": index}}),
                )
                for index in range(events)
            ),
            deflated=session % 3 == 0,
        )
        for session in sessions
    ]


def expected_rows(commits: Iterable[Commit]) -> list[Row]:
    """The expected rows of commits."""
    return sorted((row for commit in commits for row in commit.rows), key=_id)


def read_rows(lake: Path) -> list[Row]:
    """The rows of the history, sorted by id. Checks the columns of each file."""
    return sorted((row for file in sorted((lake / "events").rglob("*.parquet")) for row in _rows(lake, file)), key=_id)


def read_files(folder: Path, below: str = "") -> dict[str, bytes]:
    """All files below a directory with their contents, except the lock."""
    found = (path for path in (folder / below).rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def full(commit: Commit) -> bytes:
    """A line of a full export."""
    return line({"Item": commit.item})


def changed(commit: Commit) -> bytes:
    """A line of an incremental export."""
    return line({**_header(commit.server, commit.session), "NewImage": commit.item})


def deleted(server: int, session: int) -> bytes:
    """A line of an incremental export for a deleted commit."""
    return line(_header(server, session))


def line(content: Mapping[str, Any]) -> bytes:
    """A line of a data file."""
    return _json(content).encode() + b"\n"


def with_item(commit: Commit, **attributes: dict[str, Any] | None) -> bytes:
    """A line of a full export with changed attributes. None removes an attribute."""
    item = {**commit.item, **attributes}
    return line({"Item": {name: value for name, value in item.items() if value is not None}})


def with_body(commit: Commit, body: str) -> bytes:
    """A line of a full export with another body."""
    return with_item(replace(commit, deflated=False), body={"S": body})


def full_export(root: Path, name: str, commits: Iterable[Commit], file_items: int = 1000) -> list[Path]:
    return export(root, name, _parts([full(commit) for commit in commits], file_items))


def incremental_export(root: Path, name: str, commits: Iterable[Commit], gone: Iterable[Commit] = ()) -> list[Path]:
    """Write an incremental export. Its data is in DynamoDB's common folder for incremental exports."""
    lines = [changed(commit) for commit in commits] + [deleted(commit.server, commit.session) for commit in gone]
    return export(root, name, _parts(lines, 1000), data=f"{FOLDER}/data")


def export(root: Path, name: str, files: Sequence[Sequence[bytes]], data: str = "") -> list[Path]:
    """Write an export of these lines. Returns the paths of its data files."""
    return raw_export(root, name, [(gzip.compress(b"".join(lines)), len(lines)) for lines in files], data)


def raw_export(root: Path, name: str, files: Sequence[tuple[bytes, int]], data: str = "") -> list[Path]:
    """Write an export of data files with these contents and item counts."""
    folder = data or f"{FOLDER}/{name}/data"
    keys = [f"{folder}/{name}-{number:03d}.json.gz" for number in range(len(files))]
    for key, (content, _) in zip(keys, files, strict=True):
        _write(root / key, content)
    listed = [
        {"itemCount": items, "md5Checksum": md5_of(content), "etag": "e", "dataFileS3Key": f"some/prefix/{key}"}
        for key, (content, items) in zip(keys, files, strict=True)
    ]
    manifest(root / FOLDER / name / FILES, b"".join(line(one) for one in listed))
    count = sum(items for _, items in files)
    manifest(root / FOLDER / name / SUMMARY, line({"itemCount": count, "outputFormat": "DYNAMODB_JSON"}))
    return [root / key for key in keys]


def manifest(path: Path, content: bytes) -> None:
    """Write a manifest with its checksum."""
    _write(path, content)
    _write(path.with_suffix(".checksum"), md5_of(content).encode())


def md5_of(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()


def _parts(lines: Sequence[bytes], size: int) -> list[Sequence[bytes]]:
    return [lines[begin : begin + size] for begin in range(0, len(lines) or 1, size)]


def _header(server: int, session: int) -> dict[str, Any]:
    return {
        "Metadata": {"WriteTimestampMicros": {"N": "1793534400000000"}},
        "Keys": {"server": {"N": str(server)}, "session": {"N": str(session)}},
    }


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _rows(lake: Path, file: Path) -> list[Row]:
    _, server, day, _ = file.relative_to(lake).parts
    table = pq.ParquetFile(file).read()
    assert table.schema.remove_metadata() == _COLUMNS
    table.validate(full=True)
    for name in ("at", "source_timestamp"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
    return [
        (
            int(server.removeprefix("server=")),
            day.removeprefix("day="),
            *(row[name] for name in ("session", "instance", "event_id", "at")),
            tuple(row["type"]),
            *(row[name] for name in ("key", "source_timestamp", "payload")),
        )
        for row in table.to_pylist()
    ]


def _id(row: Row) -> tuple[int, int, int]:
    return row[0], row[2], row[3]


def _time(text: str | None) -> int | None:
    return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
