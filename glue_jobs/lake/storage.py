"""A directory, on this machine or in S3 (`s3://bucket/prefix`)."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs


@dataclass(frozen=True, slots=True)
class Storage:
    """A directory; paths are given from there."""

    url: str

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if there is none."""
        files, root = self._open()
        try:
            with files.open_input_stream(f"{root}/{path}", compression=None) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """Put a file in its place as a whole."""
        files, root = self._open()
        files.create_dir(f"{root}/{path}".rpartition("/")[0], recursive=True)
        aside = f"{root}/{path}.new"
        with files.open_output_stream(aside) as stream:
            stream.write(content)
        files.move(aside, f"{root}/{path}")

    def stream(self, path: str) -> Any:
        """The bytes of a file, to be read in parts."""
        files, root = self._open()
        return files.open_input_stream(f"{root}/{path}", compression=None)

    def random(self, path: str) -> Any:
        """A file, to be read in any order."""
        files, root = self._open()
        return files.open_input_file(f"{root}/{path}")

    def output(self, path: str) -> Any:
        """A new file, to be written in parts."""
        files, root = self._open()
        files.create_dir(f"{root}/{path}".rpartition("/")[0], recursive=True)
        return files.open_output_stream(f"{root}/{path}")

    def files(self, path: str) -> list[str]:
        """The files below a directory, in order; none if there is no directory."""
        return self._found(path, recursive=True, kind=fs.FileType.File)

    def folders(self, path: str) -> list[str]:
        """The directories right in a directory, in order."""
        return self._found(path, recursive=False, kind=fs.FileType.Directory)

    def move(self, path: str, to: str) -> None:
        """Give a file another place; nothing happens if it is there already."""
        files, root = self._open()
        if files.get_file_info(f"{root}/{path}").type == fs.FileType.NotFound:
            return
        files.create_dir(f"{root}/{to}".rpartition("/")[0], recursive=True)
        files.move(f"{root}/{path}", f"{root}/{to}")

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it, if there is one."""
        files, root = self._open()
        if files.get_file_info(f"{root}/{path}").type == fs.FileType.Directory:
            files.delete_dir(f"{root}/{path}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One at a time, as long as it is a directory of this machine; in S3 Glue runs one job at a time."""
        files, root = self._open()
        if not isinstance(files, fs.LocalFileSystem):
            yield
            return
        Path(root).mkdir(parents=True, exist_ok=True)
        with (Path(root) / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _found(self, path: str, recursive: bool, kind: fs.FileType) -> list[str]:
        files, root = self._open()
        selector = fs.FileSelector(f"{root}/{path}".rstrip("/"), recursive=recursive, allow_not_found=True)
        found = [info.path for info in files.get_file_info(selector) if info.type == kind]
        return sorted(one.removeprefix(f"{root}/") for one in found)

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" in self.url:
            files, root = fs.FileSystem.from_uri(self.url)
            return files, root.rstrip("/")
        return fs.LocalFileSystem(), str(Path(self.url).absolute())
