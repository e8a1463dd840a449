"""Writes exports in DynamoDB's format, from plain values and without the product's code."""

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

Kind = Literal["FULL_EXPORT", "INCREMENTAL_EXPORT"]
FULL: Final[Kind] = "FULL_EXPORT"
INCREMENTAL: Final[Kind] = "INCREMENTAL_EXPORT"

_FOLDER: Final = "AWSDynamoDB"
_ARN: Final = "arn:aws:dynamodb:eu-central-1:123456789012:table/annals-log"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit. Whether it is stored deflated is a field, so that all exports agree."""

    server: int
    session: int
    at: int
    prev: int
    req: str
    events: tuple[str, ...]
    """Event texts made by `event_text`."""
    deflated: bool = False

    @property
    def n(self) -> int:
        return len(self.events)

    @property
    def last(self) -> int:
        """EventId of the last event."""
        return self.at + self.n - 1

    @property
    def body(self) -> str:
        return "[" + ",\n".join(self.events) + "]"


@dataclass(frozen=True, slots=True)
class Export:
    """The content of an export, in the order of its lines."""

    id: str
    kind: Kind
    commits: tuple[Commit, ...]
    deleted: tuple[tuple[int, int], ...] = ()
    """Server and session of expired commits. Only in incremental exports."""
    files: int = 1


def event_text(
    event_type: Sequence[str], key: str | None = None, payload: Any = None, source_timestamp: str | None = None
) -> str:
    """An event as the log stores it."""
    return compact({"type": list(event_type), "key": key, "sourceTimestamp": source_timestamp, "payload": payload})


def compact(value: Any) -> str:
    """Compact JSON, not escaped to ASCII."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def commits_in_order(server: int, events: Iterable[tuple[int, Sequence[str]]], deflated: bool = False) -> list[Commit]:
    """The commits of a log with these events at these times. EventIds increase even if the times do not."""
    commits: list[Commit] = []
    for session, (at, texts) in enumerate(events, start=1):
        prev = commits[-1].last if commits else 0
        commits.append(Commit(server, session, max(at, prev + 1), prev, f"{server}-{session}", tuple(texts), deflated))
    return commits


def write_exports(root: Path, exports: Iterable[Export]) -> None:
    for export in exports:
        write_export(root, export)


def write_export(root: Path, export: Export) -> None:
    """Write an export: data files, list of files, summary."""
    folder = f"{_FOLDER}/{export.id}"
    (root / folder / "data").mkdir(parents=True)
    lines = [_line(export.kind, commit) for commit in export.commits] + [_deletion(*keys) for keys in export.deleted]
    entries = [
        _write_data_file(root, f"{folder}/data/{export.id}-{index}.json.gz", lines[index :: export.files])
        for index in range(export.files)
    ]
    listed = "".join(compact(entry) + "\n" for entry in entries)
    _with_checksum(root / folder / "manifest-files.json", listed)
    _with_checksum(root / folder / "manifest-summary.json", compact(_summary(export, folder, len(lines))))


def _line(kind: Kind, commit: Commit) -> str:
    item = _item(commit)
    if kind == FULL:
        return compact({"Item": item})
    keys = {"server": item["server"], "session": item["session"]}
    return compact({"Metadata": {"WriteTimestampMicros": {"N": str(commit.at)}}, "Keys": keys, "NewImage": item})


def _deletion(server: int, session: int) -> str:
    keys = {"server": {"N": str(server)}, "session": {"N": str(session)}}
    return compact({"Metadata": {"WriteTimestampMicros": {"N": "1800000000000000"}}, "Keys": keys})


def _item(commit: Commit) -> dict[str, dict[str, str]]:
    numbers = {name: getattr(commit, name) for name in ("server", "session", "at", "n", "prev")}
    item = {name: {"N": str(number)} for name, number in numbers.items()} | {"req": {"S": commit.req}}
    if not commit.deflated:
        return item | {"body": {"S": commit.body}}
    return item | {"z": {"B": base64.b64encode(zlib.compress(commit.body.encode())).decode()}}


def _write_data_file(root: Path, key: str, lines: Sequence[str]) -> dict[str, Any]:
    """Write a data file. Returns its manifest entry."""
    content = gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)
    (root / key).write_bytes(content)
    md5 = hashlib.md5(content, usedforsecurity=False)
    checksum = base64.b64encode(md5.digest()).decode()
    return {"itemCount": len(lines), "md5Checksum": checksum, "etag": md5.hexdigest(), "dataFileS3Key": key}


def _summary(export: Export, folder: str, items: int) -> dict[str, Any]:
    to = "2024-03-10T00:00:00.000Z"
    period = {"exportTime": to}
    if export.kind == INCREMENTAL:
        period = {"exportFromTime": "2024-03-09T00:00:00.000Z", "exportToTime": to, "outputView": "NEW_IMAGE"}
    return {
        "version": "2020-06-30" if export.kind == FULL else "2023-08-01",
        "exportArn": f"{_ARN}/export/{export.id}",
        "startTime": to,
        "endTime": to,
        "tableArn": _ARN,
        **period,
        "s3Bucket": "exports",
        "s3Prefix": None,
        "manifestFilesS3Key": f"{folder}/manifest-files.json",
        "itemCount": items,
        "outputFormat": "DYNAMODB_JSON",
        "exportType": export.kind,
    }


def _with_checksum(path: Path, text: str) -> None:
    content = text.encode()
    path.write_bytes(content)
    md5 = hashlib.md5(content, usedforsecurity=False)
    path.with_suffix(".checksum").write_bytes(base64.b64encode(md5.digest()))
