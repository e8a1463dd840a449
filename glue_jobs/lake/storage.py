"""A storage directory, local or in S3 (`s3://bucket/prefix`)."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs


@dataclass(frozen=True, slots=True)
class Storage:
    """A directory. All paths are relative to it."""

    url: str

    def read(self, path: str) -> bytes | None:
        """The content of a file. None if it does not exist."""
        files, root = self._open()
        try:
            with files.open_input_stream(f"{root}/{path}", compression=None) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """Write a file atomically."""
        files, root = self._open()
        files.create_dir(f"{root}/{path}".rpartition("/")[0], recursive=True)
        temporary = f"{root}/{path}.new"
        with files.open_output_stream(temporary) as stream:
            stream.write(content)
        files.move(temporary, f"{root}/{path}")

    def open_stream(self, path: str) -> Any:
        """Open a file for sequential reading."""
        files, root = self._open()
        return files.open_input_stream(f"{root}/{path}", compression=None)

    def open_random(self, path: str) -> Any:
        """Open a file for random access."""
        files, root = self._open()
        return files.open_input_file(f"{root}/{path}")

    def create(self, path: str) -> Any:
        """Open a new file for writing."""
        files, root = self._open()
        files.create_dir(f"{root}/{path}".rpartition("/")[0], recursive=True)
        return files.open_output_stream(f"{root}/{path}")

    def files(self, path: str, recursive: bool = True) -> list[str]:
        """The files below or directly in a directory, sorted. Empty if it does not exist."""
        return self._list(path, recursive=recursive, kind=fs.FileType.File)

    def folders(self, path: str) -> list[str]:
        """The direct subdirectories, sorted."""
        return self._list(path, recursive=False, kind=fs.FileType.Directory)

    def move(self, path: str, to: str) -> None:
        """Move a file. Does nothing if the source does not exist, because an earlier run has moved it."""
        files, root = self._open()
        if files.get_file_info(f"{root}/{path}").type == fs.FileType.NotFound:
            return
        files.create_dir(f"{root}/{to}".rpartition("/")[0], recursive=True)
        files.move(f"{root}/{path}", f"{root}/{to}")

    def remove(self, path: str) -> None:
        """Remove a directory and its content, if it exists."""
        files, root = self._open()
        if files.get_file_info(f"{root}/{path}").type == fs.FileType.Directory:
            files.delete_dir(f"{root}/{path}")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold an exclusive lock on a local directory. In S3, Glue's concurrency limit replaces it."""
        files, root = self._open()
        if not isinstance(files, fs.LocalFileSystem):
            yield
            return
        Path(root).mkdir(parents=True, exist_ok=True)
        with (Path(root) / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _list(self, path: str, recursive: bool, kind: fs.FileType) -> list[str]:
        files, root = self._open()
        selector = fs.FileSelector(f"{root}/{path}".rstrip("/"), recursive=recursive, allow_not_found=True)
        paths = [info.path for info in files.get_file_info(selector) if info.type == kind]
        return sorted(path.removeprefix(f"{root}/") for path in paths)

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" in self.url:
            files, root = fs.FileSystem.from_uri(self.url)
            return files, root.rstrip("/")
        return fs.LocalFileSystem(), str(Path(self.url).absolute())
