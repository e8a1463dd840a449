"""Silences and acknowledgements, found in the finished log: which events they mute."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.faults.week.history import FOREVER, Entry, microseconds


@dataclass(frozen=True)
class Mute:
    """A time in which the events of a type or pattern send nothing."""

    begin: int
    end: int
    job_type: str | None
    pattern: tuple[str, ...] | None
    only_failures: bool


def read_mutes(entries: Sequence[Entry]) -> list[Mute]:
    return list(_mutes(entries))


def _mutes(entries: Sequence[Entry]) -> Iterator[Mute]:
    for entry in entries:
        if entry.type[0] != "alert" or entry.type[1] == "unsilenced":
            continue
        until = microseconds(entry.data["until"]) if "until" in entry.data else FOREVER
        pattern, job_type = entry.data.get("pattern"), entry.data.get("type")
        is_silence = entry.type[1] == "silenced"
        later = [other for other in entries if other.at > entry.at]
        if is_silence:
            ends = [
                other.at for other in later if other.type == ("alert", "unsilenced") and other.data["id"] == entry.at
            ]
        else:
            good = ("success", "recovery")
            ends = [other.at for other in later if other.outcome in good and other.job_type == job_type]
        yield Mute(entry.at, min([until, *ends]), job_type, pattern and tuple(pattern), not is_silence)


def is_muted(entry: Entry, mutes: Sequence[Mute]) -> bool:
    return any(_mutes_entry(mute, entry) for mute in mutes if mute.begin < entry.at < mute.end)


def _mutes_entry(mute: Mute, entry: Entry) -> bool:
    if entry.type[0] == "alert" or (mute.only_failures and entry.outcome != "failure"):
        return False
    return matches(entry.type, mute.pattern) if mute.pattern else entry.job_type == mute.job_type


def matches(event_type: Sequence[str], pattern: Sequence[str] | str) -> bool:
    """`?` is one subtype, and a final `*` any number of them."""
    parts = pattern.split("/") if isinstance(pattern, str) else list(pattern)
    if parts[-1] == "*":
        parts = parts[:-1]
        event_type = event_type[: len(parts)]
    return len(parts) == len(event_type) and all(
        part in ("?", subtype) for part, subtype in zip(parts, event_type, strict=True)
    )
