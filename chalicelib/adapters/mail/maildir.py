"""Mail into a directory, where a mail reader or a test finds it."""

import os
import tempfile
from pathlib import Path

from chalicelib.adapters.mail.message import Clock, mark, message, now_ms
from chalicelib.domain.errors import NotDelivered
from chalicelib.domain.notifications.delivery import Mail

_PARTS = ("tmp", "new", "cur")


class MaildirMailer:
    """Puts each mail into the maildir at `path`, for whomever it is."""

    def __init__(self, path: Path | str, clock: Clock = now_ms) -> None:
        self._path = Path(path)
        self._clock = clock

    def send(self, mail: Mail) -> None:
        """Put `mail` there, safe from a power cut; another try of its delivery replaces it."""
        built = message(mail, self._clock())
        content = built.as_bytes(policy=built.policy.clone(linesep="\n"))
        try:
            self._put(f"{mark(mail.delivery)}.annals", content)
        except OSError as failure:
            raise NotDelivered(f"the maildir cannot be written: {failure.strerror}") from failure

    def _put(self, name: str, content: bytes) -> None:
        for part in _PARTS:
            (self._path / part).mkdir(parents=True, exist_ok=True)
        written = self._written(name, content)
        place = self._place(name)
        try:
            written.rename(place)
        except OSError:
            written.unlink()
            raise
        _sync(place.parent)

    def _written(self, name: str, content: bytes) -> Path:
        """The mail on disk, where no reader looks yet."""
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

    def _place(self, name: str) -> Path:
        """Where an earlier try is, also if its reader moved it to `cur` and flagged it; else in `new`."""
        earlier = (path for path in (self._path / "cur").iterdir() if path.name.partition(":")[0] == name)
        return next(earlier, self._path / "new" / name)


def _sync(directory: Path) -> None:
    """Make sure that the directory itself remembers its names."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
