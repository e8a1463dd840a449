"""Exports of local logs as files, with their manifests.

The layout is that of DynamoDB's export to S3, `AWSDynamoDB/<export id>/…` with manifests and data files, so that the
same jobs can load both kinds of export.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.model import Model

EXPORTS_FOLDER: Final = "AWSDynamoDB"
SUMMARY_MANIFEST: Final = "manifest-summary.json"
FILES_MANIFEST: Final = "manifest-files.json"
DATA_FOLDER: Final = "data"

FULL: Final = "FULL_EXPORT"
INCREMENTAL: Final = "INCREMENTAL_EXPORT"
ExportKind = Literal["FULL_EXPORT", "INCREMENTAL_EXPORT"]

_TABLE: Final = "annals-log"
_VERSIONS: Final[Mapping[ExportKind, str]] = {FULL: "2020-06-30", INCREMENTAL: "2023-08-01"}

DynamoDbItem = Mapping[str, Mapping[str, str]]
"""A commit as a DynamoDB item: attribute name -> {type: value}."""


class Span(Model):
    """The sessions of one log that an export contains: after `after`, up to and including `session`."""

    server: int
    after: int
    """The last session before the span."""
    after_last: int
    """EventId of the last event of session `after`."""
    session: int
    """The last session of the span."""
    last: int
    """EventId of the last event of session `session`."""


class Export(Model):
    """An export of local logs. Its content is fixed before it starts, so that it can be repeated after a crash."""

    id: str
    from_ms: int | None
    """End of the previous export. None: this is a full export."""
    to_ms: int
    spans: tuple[Span, ...]

    @property
    def kind(self) -> ExportKind:
        return FULL if self.from_ms is None else INCREMENTAL

    @property
    def commits(self) -> int:
        """Number of commits, unless retention deletes some of them before they are exported."""
        return sum(span.session - span.after for span in self.spans)


class Ledger(Model):
    """The exports so far. The next export continues where the last one ended."""

    ids: tuple[str, ...] = ()
    """Ids of the completed exports."""
    ended_ms: int | None = None
    """End of the last completed export."""
    ends: tuple[Span, ...] = ()
    """The spans of the last completed export, one for each log."""
    planned: Export | None = None
    """An export that has been started. It is repeated until it completes."""

    def with_completed(self, export: Export) -> "Ledger":
        """The ledger after `export` has completed."""
        return Ledger(ids=(*self.ids, export.id), ended_ms=export.to_ms, ends=export.spans)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file that has been written."""

    key: str
    """Path relative to the exports directory."""
    item_count: int
    size_bytes: int
    md5: bytes


def new_export(from_ms: int | None, to_ms: int, spans: Sequence[Span]) -> Export:
    """A new export. The same content always gets the same id."""
    content = to_json([span.model_dump() for span in spans])
    return Export(id=f"{to_ms:014d}-{zlib.crc32(content):08x}", from_ms=from_ms, to_ms=to_ms, spans=tuple(spans))


def span_between(after: Head, to: Head) -> Span:
    """The span from one head to a later one of the same log."""
    return Span(
        server=to.server, after=after.session, after_last=after.last_event_id, session=to.session, last=to.last_event_id
    )


def encode_line(kind: ExportKind, commit: Commit, item: DynamoDbItem) -> bytes:
    """The line of a data file that contains the commit."""
    if kind == FULL:
        return to_json({"Item": item}) + b"\n"
    return (
        to_json(
            {
                "Metadata": {"WriteTimestampMicros": {"N": str(commit.at_us)}},
                "Keys": {name: item[name] for name in ("server", "session")},
                "NewImage": item,
            }
        )
        + b"\n"
    )


def files_manifest(files: Sequence[DataFile]) -> bytes:
    """The content of `manifest-files.json`: one line for each data file."""
    return b"".join(
        to_json(
            {
                "itemCount": file.item_count,
                "md5Checksum": base64.b64encode(file.md5).decode(),
                "etag": file.md5.hex(),
                "dataFileS3Key": file.key,
            }
        )
        + b"\n"
        for file in files
    )


def summary_manifest(export: Export, files: Sequence[DataFile], bucket: str, ended_ms: int) -> bytes:
    """The content of `manifest-summary.json`."""
    to = _time(export.to_ms)
    table_arn = f"arn:aws:dynamodb:local:000000000000:table/{_TABLE}"
    period = {"exportTime": to}
    if export.from_ms is not None:
        period = {"exportFromTime": _time(export.from_ms), "exportToTime": to}
    return to_json(
        {
            "version": _VERSIONS[export.kind],
            "exportArn": f"{table_arn}/export/{export.id}",
            "startTime": to,
            "endTime": _time(ended_ms),
            "tableArn": table_arn,
            "tableId": _TABLE,
            **period,
            "s3Bucket": bucket,
            "s3Prefix": None,
            "s3SseAlgorithm": None,
            "s3SseKmsKeyId": None,
            "manifestFilesS3Key": f"{EXPORTS_FOLDER}/{export.id}/{FILES_MANIFEST}",
            "billedSizeBytes": sum(file.size_bytes for file in files),
            "itemCount": sum(file.item_count for file in files),
            "outputFormat": "DYNAMODB_JSON",
            **({"outputView": "NEW_IMAGE"} if export.kind == INCREMENTAL else {}),
            "exportType": export.kind,
        },
        indent=2,
    )


def _time(time_ms: int) -> str:
    return timestamps.iso(time_ms * 1000)[:23] + "Z"
