"""Writes mail to a maildir, for installations without a mail server and for tests."""

import os
import tempfile
from pathlib import Path

from chalicelib.adapters.mail.message import Clock, build_message, now_ms, stable_id
from chalicelib.domain.errors import NotDelivered
from chalicelib.domain.notifications.delivery import Mail

_SUBDIRECTORIES = ("tmp", "new", "cur")


class MaildirMailer:
    """Writes each mail to the maildir at `path`, whatever its recipient."""

    def __init__(self, path: Path | str, clock: Clock = now_ms) -> None:
        self._path = Path(path)
        self._clock = clock

    def send(self, mail: Mail) -> None:
        """Write `mail` durably. Another attempt of the same delivery replaces it. Raises `NotDelivered`."""
        message = build_message(mail, self._clock())
        content = message.as_bytes(policy=message.policy.clone(linesep="\n"))
        try:
            self._put(f"{stable_id(mail.delivery)}.annals", content)
        except OSError as error:
            raise NotDelivered(f"the maildir cannot be written: {error.strerror}") from error

    def _put(self, name: str, content: bytes) -> None:
        for subdirectory in _SUBDIRECTORIES:
            (self._path / subdirectory).mkdir(parents=True, exist_ok=True)
        temporary = self._write_temporary(name, content)
        target = self._target(name)
        try:
            temporary.rename(target)
        except OSError:
            temporary.unlink()
            raise
        _fsync_directory(target.parent)

    def _write_temporary(self, name: str, content: bytes) -> Path:
        descriptor, path = tempfile.mkstemp(prefix=f"{name}.", dir=self._path / "tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            Path(path).unlink()
            raise
        return Path(path)

    def _target(self, name: str) -> Path:
        """The file of an earlier attempt if a mail reader moved it to `cur` and added flags, else a file in `new`."""
        earlier = (path for path in (self._path / "cur").iterdir() if path.name.partition(":")[0] == name)
        return next(earlier, self._path / "new" / name)


def _fsync_directory(directory: Path) -> None:
    """Make the rename durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
