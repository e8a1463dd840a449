"""Finds DynamoDB exports and reads their manifests."""

import base64
import binascii
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from glue_jobs.errors import BrokenExport
from glue_jobs.lake.storage import Storage

FOLDER: Final = "AWSDynamoDB"
SUMMARY: Final = "manifest-summary.json"
FILES: Final = "manifest-files.json"
ENDING: Final = ".json.gz"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file. Without a manifest, `items` and `md5` are None."""

    path: str
    items: int | None = None
    md5: bytes | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """A complete export with its data files."""

    id: str
    files: tuple[DataFile, ...]


def find_exports(storage: Storage, loaded: Collection[str] = ()) -> list[Export]:
    """All complete exports that are not in `loaded`, ordered by id.

    Loaded exports are not opened, because S3 may be expiring their files. DynamoDB writes the summary last, so an
    export without one is incomplete. If there is no DynamoDB folder, all data files together are one export.
    """
    folders = storage.folders(FOLDER)
    if not folders:
        return _without_manifest(storage)
    exports = [_export(storage, folder) for folder in folders if folder.rpartition("/")[2] not in loaded]
    return [export for export in exports if export is not None]


def _without_manifest(storage: Storage) -> list[Export]:
    paths = [path for path in storage.files("") if path.endswith(ENDING) and not _is_hidden(path)]
    if not paths:
        return []
    name = hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16]
    return [Export(f"files-{name}", tuple(map(DataFile, paths)))]


def _is_hidden(path: str) -> bool:
    """Whether the path is in a hidden directory, which holds an export that is still being written."""
    return any(part.startswith(".") for part in path.split("/"))


def _export(storage: Storage, folder: str) -> Export | None:
    content = _read_manifest(storage, f"{folder}/{SUMMARY}")
    if content is None:
        return None
    path = f"{folder}/{FILES}"
    listed = _read_manifest(storage, path)
    if listed is None:
        raise BrokenExport(path, "the export has a summary, but no list of its files")
    files = tuple(_data_file(path, line) for line in listed.splitlines() if line.strip())
    _check_count(f"{folder}/{SUMMARY}", content, files)
    return Export(folder.rpartition("/")[2], files)


def _check_count(path: str, summary: bytes, files: tuple[DataFile, ...]) -> None:
    try:
        count = json.loads(summary)["itemCount"]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenExport(path, f"not a valid export summary: {error!r}") from error
    listed = sum(file.items or 0 for file in files)
    if count != listed:
        raise BrokenExport(path, f"the export has {count} items, but {FILES} lists {listed}")


def _data_file(path: str, line: bytes) -> DataFile:
    try:
        entry: dict[str, Any] = json.loads(line)
        key, items, md5 = str(entry["dataFileS3Key"]), int(entry["itemCount"]), entry.get("md5Checksum")
        digest = None if md5 is None else base64.b64decode(md5, validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise BrokenExport(path, f"a line does not describe a data file: {error!r}") from error
    # The key starts at the bucket's root, but the export may have been copied since.
    _, folder, rest = key.rpartition(f"{FOLDER}/")
    return DataFile(f"{folder}{rest}", items, digest)


def _read_manifest(storage: Storage, path: str) -> bytes | None:
    """The content of a manifest, verified with its checksum file if there is one."""
    content = storage.read(path)
    checksum = None if content is None else storage.read(path.removesuffix(".json") + ".checksum")
    if content is not None and checksum is not None:
        md5 = hashlib.md5(content, usedforsecurity=False)
        if checksum.strip() not in (base64.b64encode(md5.digest()), md5.hexdigest().encode()):
            raise BrokenExport(path, "the file does not match its checksum file")
    return content
