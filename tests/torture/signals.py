"""How the parent tells the others what time it is: files, for a killed process can hold no lock on them."""

from pathlib import Path


class Signals:
    """What the parent has said so far."""

    def __init__(self, home: Path) -> None:
        self._stop = home / "stop"
        self._end = home / "end"

    def stop(self) -> None:
        """Say: no new requests."""
        self._stop.touch()

    @property
    def stopped(self) -> bool:
        """Whether no new requests are wanted."""
        return self._stop.exists()

    def finish(self, event_id: int) -> None:
        """Say: nothing more will be written, and this is the last EventId."""
        draft = self._end.with_suffix(".draft")
        draft.write_text(str(event_id))
        draft.replace(self._end)

    @property
    def end(self) -> int | None:
        """The last EventId there will ever be, once that is known."""
        return int(self._end.read_text()) if self._end.exists() else None
