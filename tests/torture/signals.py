"""Signals from the parent to the worker processes, as files: a killed process cannot hold a lock on them."""

from pathlib import Path


class Signals:
    """The signals of a run."""

    def __init__(self, home: Path) -> None:
        self._stop = home / "stop"
        self._end = home / "end"

    def stop(self) -> None:
        """Ask the workers to send no new requests."""
        self._stop.touch()

    @property
    def is_stopped(self) -> bool:
        return self._stop.exists()

    def set_end(self, event_id: int) -> None:
        """Announce the final EventId of the log."""
        draft = self._end.with_suffix(".draft")
        draft.write_text(str(event_id))
        draft.replace(self._end)

    @property
    def end(self) -> int | None:
        """The final EventId, or None while writers are running."""
        return int(self._end.read_text()) if self._end.exists() else None
