"""Exports on disk. Each is written to a staging folder and then renamed, so readers never see an incomplete one."""

import base64
import fcntl
import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chalicelib.domain.errors import BadInput
from chalicelib.domain.exports.export import (
    DATA_FOLDER,
    EXPORTS_FOLDER,
    FILES_MANIFEST,
    SUMMARY_MANIFEST,
    DataFile,
    Export,
    Ledger,
    files_manifest,
    summary_manifest,
)
from chalicelib.services.ports import Clock

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Maximum size of a data file before compression. A Spark task reads a whole gzip file, so files must not be large."""
COMPRESSION_LEVEL = 4
"""Low, because large commit bodies are compressed already."""

_GZIP = 31
"""`wbits` for the gzip format. The header has no time, so equal lines give equal files."""
_LEDGER = "ledger.json"
_STAGING = ".unfinished"


class ExportFolder:
    """A directory with exports and their ledger."""

    def __init__(self, root: Path, clock: Clock, file_bytes: int = MAX_FILE_BYTES) -> None:
        self._root = root
        self._clock = clock
        self._file_bytes = file_bytes

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Allow one export at a time. The operating system releases the lock when the process ends."""
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadInput(f"another export to {self._root} is running") from error
            yield

    def ledger(self) -> Ledger:
        """The saved ledger. A planned export counts as complete if its folder exists, even if that was not recorded."""
        path = self._root / _LEDGER
        ledger = Ledger.model_validate_json(path.read_bytes()) if path.exists() else Ledger()
        if ledger.planned is not None and self.path_of(ledger.planned).exists():
            return ledger.with_completed(ledger.planned)
        return ledger

    def save_ledger(self, ledger: Ledger) -> None:
        new_file = self._root / f"{_LEDGER}.new"
        _write(new_file, ledger.model_dump_json(indent=2).encode())
        new_file.rename(self._root / _LEDGER)
        _fsync_directory(self._root)

    def path_of(self, export: Export) -> Path:
        """The folder of the export once it is complete."""
        return self._root / EXPORTS_FOLDER / export.id

    def write(self, export: Export, lines: Iterator[bytes], on_progress: Callable[[int], None]) -> int:
        """Write the export and return its number of items. `on_progress` gets the number of items written so far."""
        staging = self._root / _STAGING
        shutil.rmtree(staging, ignore_errors=True)
        try:
            return self._write(export, staging / export.id, lines, on_progress)
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)  # The disk may be full.
            raise

    def _write(self, export: Export, staging: Path, lines: Iterator[bytes], on_progress: Callable[[int], None]) -> int:
        (staging / DATA_FOLDER).mkdir(parents=True)
        files = self._write_data_files(export, staging, lines, on_progress)
        _write_with_checksum(staging / FILES_MANIFEST, files_manifest(files))
        _write_with_checksum(
            staging / SUMMARY_MANIFEST, summary_manifest(export, files, self._root.name, self._clock())
        )
        for folder in (staging / DATA_FOLDER, staging):
            _fsync_directory(folder)
        path = self.path_of(export)
        path.parent.mkdir(exist_ok=True)
        staging.rename(path)
        _fsync_directory(path.parent)
        return sum(file.item_count for file in files)

    def _write_data_files(
        self, export: Export, staging: Path, lines: Iterator[bytes], on_progress: Callable[[int], None]
    ) -> list[DataFile]:
        files: list[DataFile] = []
        done = 0
        line = next(lines, None)
        while line is not None or not files:
            file = _DataFileWriter(staging / DATA_FOLDER / f"{len(files):05d}-{export.id[-8:]}.json.gz")
            while line is not None and file.input_bytes < self._file_bytes:
                file.add(line)
                line = next(lines, None)
                on_progress(done + file.items)
            done += file.items
            files.append(file.close(f"{EXPORTS_FOLDER}/{export.id}/{DATA_FOLDER}/{file.path.name}"))
        return files


class _DataFileWriter:
    """Writes one compressed data file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.items = 0
        self.input_bytes = 0
        """Bytes added, before compression."""
        self._size = 0
        self._file = path.open("wb")
        self._deflate = zlib.compressobj(COMPRESSION_LEVEL, wbits=_GZIP)
        self._md5 = hashlib.md5(usedforsecurity=False)

    def add(self, line: bytes) -> None:
        self.items += 1
        self.input_bytes += len(line)
        self._write(self._deflate.compress(line))

    def close(self, key: str) -> DataFile:
        """Finish the file and flush it to disk."""
        self._write(self._deflate.flush())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return DataFile(key, self.items, self._size, self._md5.digest())

    def _write(self, content: bytes) -> None:
        if content:
            self._file.write(content)
            self._md5.update(content)
            self._size += len(content)


def _write_with_checksum(path: Path, content: bytes) -> None:
    _write(path.with_suffix(".checksum"), base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()))
    _write(path, content)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _fsync_directory(folder: Path) -> None:
    """Make new and renamed files durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
