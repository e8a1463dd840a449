"""Exports on disk: written aside, then put in their place as a whole, so that nobody reads half of one."""

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
    DATA,
    FILES,
    FOLDER,
    SUMMARY,
    DataFile,
    Export,
    Ledger,
    files_manifest,
    summary_manifest,
)
from chalicelib.services.ports import Clock

FILE_BYTES = 32 * 1024 * 1024
"""A data file ends when so much, not yet compressed, is in it: gzip files are read by one task each."""
LEVEL = 4
"""Most of what is large is deflated already."""

_GZIP = 31
"""What zlib calls the format of gzip; without a time in it, so that the same lines are the same file."""
_LEDGER = "ledger.json"
_ASIDE = ".unfinished"


class ExportFolder:
    """A directory with exports and the ledger of them."""

    def __init__(self, root: Path, clock: Clock, file_bytes: int = FILE_BYTES) -> None:
        self._root = root
        self._clock = clock
        self._file_bytes = file_bytes

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One at a time; the lock ends with the process, however that ends."""
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as refusal:
                raise BadInput(f"another export to {self._root} is under way") from refusal
            yield

    def ledger(self) -> Ledger:
        """What was exported; an export that is in its place is complete, even if nobody could say so any more."""
        path = self._root / _LEDGER
        ledger = Ledger.model_validate_json(path.read_bytes()) if path.exists() else Ledger()
        if ledger.planned is not None and self.place(ledger.planned).exists():
            return ledger.completed(ledger.planned)
        return ledger

    def keep(self, ledger: Ledger) -> None:
        """Remember the ledger."""
        aside = self._root / f"{_LEDGER}.new"
        _write(aside, ledger.model_dump_json(indent=2).encode())
        aside.rename(self._root / _LEDGER)
        _sync(self._root)

    def place(self, export: Export) -> Path:
        """Where the export is once it is complete."""
        return self._root / FOLDER / export.id

    def write(self, export: Export, lines: Iterator[bytes], show: Callable[[int], None]) -> int:
        """Write the export as a whole; how many items it has."""
        unfinished = self._root / _ASIDE
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            return self._write(export, unfinished / export.id, lines, show)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)  # a disk that is full needs the space
            raise

    def _write(self, export: Export, aside: Path, lines: Iterator[bytes], show: Callable[[int], None]) -> int:
        (aside / DATA).mkdir(parents=True)
        files = self._data_files(export, aside, lines, show)
        _with_checksum(aside / FILES, files_manifest(files))
        _with_checksum(aside / SUMMARY, summary_manifest(export, files, self._root.name, self._clock()))
        for folder in (aside / DATA, aside):
            _sync(folder)
        place = self.place(export)
        place.parent.mkdir(exist_ok=True)
        aside.rename(place)
        _sync(place.parent)
        return sum(file.items for file in files)

    def _data_files(
        self, export: Export, aside: Path, lines: Iterator[bytes], show: Callable[[int], None]
    ) -> list[DataFile]:
        files: list[DataFile] = []
        done = 0
        line = next(lines, None)
        while line is not None or not files:
            file = _Writing(aside / DATA / f"{len(files):05d}-{export.id[-8:]}.json.gz")
            while line is not None and file.taken < self._file_bytes:
                file.add(line)
                line = next(lines, None)
                show(done + file.items)
            done += file.items
            files.append(file.closed(f"{FOLDER}/{export.id}/{DATA}/{file.path.name}"))
        return files


class _Writing:
    """A data file while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.items = 0
        self.taken = 0
        """Bytes that were put in it, before they were compressed."""
        self._size = 0
        self._file = path.open("wb")
        self._deflate = zlib.compressobj(LEVEL, wbits=_GZIP)
        self._md5 = hashlib.md5(usedforsecurity=False)

    def add(self, line: bytes) -> None:
        """One more item."""
        self.items += 1
        self.taken += len(line)
        self._put(self._deflate.compress(line))

    def closed(self, key: str) -> DataFile:
        """The file, on the disk."""
        self._put(self._deflate.flush())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return DataFile(key, self.items, self._size, self._md5.digest())

    def _put(self, content: bytes) -> None:
        if content:
            self._file.write(content)
            self._md5.update(content)
            self._size += len(content)


def _with_checksum(path: Path, content: bytes) -> None:
    _write(path.with_suffix(".checksum"), base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()))
    _write(path, content)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Have the names in a directory on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
