"""Exports of the log as files: what each one holds, and the manifests that say so.

The layout is that of DynamoDB's export to S3, `AWSDynamoDB/<export id>/…` with manifests and data files, so that those
who read exports need not know which of the two they have.
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

FOLDER: Final = "AWSDynamoDB"
SUMMARY: Final = "manifest-summary.json"
FILES: Final = "manifest-files.json"
DATA: Final = "data"

FULL: Final = "FULL_EXPORT"
INCREMENTAL: Final = "INCREMENTAL_EXPORT"
Kind = Literal["FULL_EXPORT", "INCREMENTAL_EXPORT"]

_TABLE: Final = "annals-log"
_VERSIONS: Final[Mapping[Kind, str]] = {FULL: "2020-06-30", INCREMENTAL: "2023-08-01"}

Item = Mapping[str, Mapping[str, str]]
"""A commit as DynamoDB keeps it: each attribute with its type."""


class Span(Model):
    """The commits of one log that an export holds: those after a session, up to another."""

    server: int
    after: int
    """The last session that is not in it."""
    after_last: int
    """The EventId of its last event."""
    session: int
    """The last one that is."""
    last: int
    """Again the EventId of its last event."""


class Export(Model):
    """An export of local logs: what it holds is settled before it begins, so that it can be done again."""

    id: str
    from_ms: int | None
    """When the one before ended; None: this one is full."""
    to_ms: int
    spans: tuple[Span, ...]

    @property
    def kind(self) -> Kind:
        """Whether it holds everything or what came since the one before."""
        return FULL if self.from_ms is None else INCREMENTAL

    @property
    def commits(self) -> int:
        """How many it holds, unless retention forgets some of them meanwhile."""
        return sum(span.session - span.after for span in self.spans)


class Ledger(Model):
    """What was exported: the next export goes on where the last one ended."""

    ids: tuple[str, ...] = ()
    """Of the exports that are complete."""
    ended_ms: int | None = None
    """When the last of them did."""
    ends: tuple[Span, ...] = ()
    """Where each log was then."""
    planned: Export | None = None
    """The one that was begun; it is done again until it is complete."""

    def completed(self, export: Export) -> "Ledger":
        """The ledger once the export is complete."""
        return Ledger(ids=(*self.ids, export.id), ended_ms=export.to_ms, ends=export.spans)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of an export, once it is written."""

    key: str
    """Its path from the root of all exports."""
    items: int
    size: int
    md5: bytes


def new_export(from_ms: int | None, to_ms: int, spans: Sequence[Span]) -> Export:
    """An export with an id of its own."""
    content = to_json([span.model_dump() for span in spans])
    return Export(id=f"{to_ms:014d}-{zlib.crc32(content):08x}", from_ms=from_ms, to_ms=to_ms, spans=tuple(spans))


def span(after: Head, to: Head) -> Span:
    """What came after a head, up to another of the same log."""
    return Span(server=to.server, after=after.session, after_last=after.last, session=to.session, last=to.last)


def line_of(kind: Kind, commit: Commit, item: Item) -> bytes:
    """The line of a data file that holds the commit."""
    if kind == FULL:
        return to_json({"Item": item}) + b"\n"
    return (
        to_json(
            {
                "Metadata": {"WriteTimestampMicros": {"N": str(commit.at)}},
                "Keys": {name: item[name] for name in ("server", "session")},
                "NewImage": item,
            }
        )
        + b"\n"
    )


def files_manifest(files: Sequence[DataFile]) -> bytes:
    """What `manifest-files.json` says: a line for each data file."""
    return b"".join(
        to_json(
            {
                "itemCount": file.items,
                "md5Checksum": base64.b64encode(file.md5).decode(),
                "etag": file.md5.hex(),
                "dataFileS3Key": file.key,
            }
        )
        + b"\n"
        for file in files
    )


def summary_manifest(export: Export, files: Sequence[DataFile], bucket: str, ended_ms: int) -> bytes:
    """What `manifest-summary.json` says."""
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
            "manifestFilesS3Key": f"{FOLDER}/{export.id}/{FILES}",
            "billedSizeBytes": sum(file.size for file in files),
            "itemCount": sum(file.items for file in files),
            "outputFormat": "DYNAMODB_JSON",
            **({"outputView": "NEW_IMAGE"} if export.kind == INCREMENTAL else {}),
            "exportType": export.kind,
        },
        indent=2,
    )


def _time(time_ms: int) -> str:
    return timestamps.iso(time_ms * 1000)[:23] + "Z"
