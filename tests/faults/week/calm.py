"""A second implementation of the rules of calm observers, from their description.

It keeps all events of a group in a list and looks at them again for each decision.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tests.faults.week.history import EPOCH, Entry, Json, Life
from tests.faults.week.mutes import Mute, is_muted, matches

SECOND = 1_000_000
QUARTER = 15 * 60 * SECOND
"""Quiet hours and times of digests are multiples of this."""
UNITS = {"s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}

Filter = Callable[[Entry], bool]


class Message(NamedTuple):
    """What one delivery reports."""

    observer: str
    first: str
    """Id of the first event."""
    until: int
    """EventId of the last event. 0: the event was sent at once."""
    events: int
    samples: str
    """The ids of the first five events, if it was held."""


class Seen(NamedTuple):
    """An event of a group, and whether it was news."""

    entry: Entry
    is_wanted: bool
    is_muted: bool
    is_news: bool


@dataclass
class Group:
    """All events of a group, and those that are held."""

    seen: list[Seen] = field(default_factory=list)
    held: list[Entry] = field(default_factory=list)
    due: int = 0
    last_sent: int | None = None


@dataclass
class SecondObserver:
    """An observer from its creation to its deletion."""

    life: Life
    mutes: Sequence[Mute]
    passes: Filter
    delay_us: int
    """Held messages are sent this long after their time."""

    def __post_init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.configuration: Json = self.life.changes[0][1]
        self.snoozes: list[tuple[int, int]] = []
        self.messages: list[Message] = []

    def run(self, entries: Sequence[Entry], end_us: int) -> list[Message]:
        """All messages that are sent before `end_us`."""
        changes: list[tuple[int, Json | int]] = [(at, configuration) for at, configuration, _ in self.life.changes]
        changes += self.life.snoozes
        end = min(end_us, self.life.deleted)
        events = [entry for entry in entries if self.life.since < entry.at < self.life.deleted]
        timeline = sorted([*((at, 0, what) for at, what in changes), *((one.at, 1, one) for one in events)], key=_order)
        for at, _, what in timeline:
            if isinstance(what, Entry):
                if any(matches(what.type, pattern) for pattern in self.configuration["types"]):
                    self._see(what)
            else:
                self._change(at, what)
        self._send_held(end - self.delay_us)
        return self.messages

    def _change(self, at: int, change: Json | int) -> None:
        """Another configuration, or a snooze. Held messages get another time."""
        self._send_held(at - self.delay_us)
        if isinstance(change, int):
            # A snooze ends the one before. One that ends at once only does that.
            self.snoozes = [(begin, min(end, at)) for begin, end in self.snoozes]
            self.snoozes += [(at, change)] if change > at else []
        else:
            self.configuration = change
        for group in self.groups.values():
            if group.held:
                group.due = self._time_to_send(group.held[0].at, group.last_sent)
            if "throttle" not in self.configuration:
                group.last_sent = None

    def _see(self, entry: Entry) -> None:
        muted = is_muted(entry, self.mutes)
        wanted = not muted and self.passes(entry)
        if not self._is_calm(entry.at):
            if wanted:
                self.messages.append(Message(self.life.name, entry.id, 0, 1, ""))
            return
        self._send_held(entry.at)
        group = self.groups.setdefault(self._group_of(entry), Group())
        is_news = self._is_news(entry, wanted, group.seen)
        group.seen.append(Seen(entry, wanted, muted, is_news))
        if not is_news:
            return
        if not group.held:
            group.due = self._time_to_send(entry.at, group.last_sent)
            if group.due == entry.at:
                self.messages.append(Message(self.life.name, entry.id, 0, 1, ""))
                group.last_sent = entry.at if "throttle" in self.configuration else None
                return
        group.held.append(entry)

    def _send_held(self, until: int) -> None:
        for group in self.groups.values():
            if group.held and group.due <= until:
                samples = " ".join(entry.id for entry in group.held[:5])
                first, last = group.held[0], group.held[-1]
                self.messages.append(Message(self.life.name, first.id, last.at, len(group.held), samples))
                group.held = []
                group.last_sent = group.due if "throttle" in self.configuration else None

    def _is_calm(self, at: int) -> bool:
        calm = ("digest", "throttle", "quiet")
        has_rule = self._when != "every" or any(name in self.configuration for name in calm)
        return has_rule or self._snoozed_until(at) is not None

    @property
    def _when(self) -> str:
        return str(self.configuration.get("when", "every"))

    def _group_of(self, entry: Entry) -> str:
        kind = entry.job_type if entry.type[0] == "job" else "/".join(entry.type)
        node = entry.type[2] if entry.type[0] == "job" and len(entry.type) > 2 else ""
        parts = {"type": kind, "node": node, "key": entry.key}
        return "/".join(parts[name] for name in self.configuration.get("group_by", ["type"]))

    def _is_news(self, entry: Entry, wanted: bool, earlier: list[Seen]) -> bool:
        if self._when == "every" or not wanted:
            return self._when == "every" and wanted
        if entry.outcome == "failure":
            return _failures_in_a_row(earlier) + 1 == self._threshold
        if entry.outcome in ("success", "recovery"):
            trouble = self._trouble(earlier)
            return trouble == "reported" or (trouble == "unknown" and entry.outcome == "recovery")
        return False

    @property
    def _threshold(self) -> int:
        """The number of the failure in a row that is news. 0: none is."""
        if self._when == "change":
            return 1
        return int(self._when.removeprefix("failures(").removesuffix(")")) if self._when.startswith("failures") else 0

    def _trouble(self, earlier: list[Seen]) -> str:
        """Whether the last known state is a reported failure. An observer of recoveries counts all failures."""
        is_known = False
        for seen in reversed(earlier):
            if seen.entry.outcome in ("success", "recovery") and (seen.is_muted or seen.is_news):
                return "none"
            if seen.entry.outcome == "failure" and not seen.is_muted:
                if seen.is_news or self._when == "recovered":
                    return "reported"
                is_known = is_known or seen.is_wanted
        return "none" if is_known else "unknown"

    def _time_to_send(self, at: int, last_sent: int | None) -> int:
        rule = self.configuration
        due = max(at, self._snoozed_until(at) or at)
        digest = rule.get("digest", "")
        if ":" not in digest:
            due = max(due, at + _duration(digest))
        if "throttle" in rule and last_sent is not None:
            due = max(due, last_sent + _duration(rule["throttle"]))
        if ":" in digest:
            times = [one.strip() for one in digest.split(",")]
            due = next(time for time in _quarters(max(due, at + 1)) if self._clock(time) in times)
        while True:
            if (end := self._snoozed_until(due)) is not None:
                due = end
            elif self._is_quiet(due):
                due = next(time for time in _quarters(due) if not self._is_quiet(time))
            else:
                return due

    def _snoozed_until(self, at: int) -> int | None:
        return max((end for begin, end in self.snoozes if begin <= at < end), default=None)

    def _clock(self, at: int) -> str:
        zone = ZoneInfo(self.configuration.get("time_zone", "UTC"))
        return f"{(EPOCH + timedelta(microseconds=at)).astimezone(zone):%H:%M}"

    def _is_quiet(self, at: int) -> bool:
        start, _, end = self.configuration.get("quiet", "").partition("-")
        now = self._clock(at)
        return bool(start) and (start <= now < end if start <= end else now >= start or now < end)


def _order(item: tuple[int, int, object]) -> tuple[int, int]:
    return item[:2]


def _failures_in_a_row(earlier: list[Seen]) -> int:
    count = 0
    for seen in reversed(earlier):
        if seen.entry.outcome in ("success", "recovery"):
            break
        count += seen.entry.outcome == "failure" and seen.is_wanted
    return count


def _quarters(at: int) -> Iterator[int]:
    """The quarters of hours from a time on."""
    time = -(-at // QUARTER) * QUARTER
    while True:
        yield time
        time += QUARTER


def _duration(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]] if text else 0
