"""A second implementation of the calm rules, from their description. It keeps every event and is slow and plain."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from chalicelib.domain.calm.outcomes import Facts

STEP_US = 15 * 60 * 1_000_000
"""Quiet hours and times of digests are multiples of this."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Message:
    """The events that one message reports, and when it is sent."""

    events: tuple[int, ...]
    at_us: int


@dataclass(frozen=True)
class Wishes:
    """What the user of an observer asks for."""

    when: str = "every"
    window_us: int = 0
    times: tuple[str, ...] = ()
    throttle_us: int = 0
    quiet: tuple[str, str] | None = None
    zone: str = "UTC"
    snooze: tuple[int, int] | None = None


def messages(wishes: Wishes, events: Sequence[Facts]) -> list[Message]:
    """All messages about the events, including those that are still held at the end, in the order of their times."""
    found: list[Message] = []
    for group in sorted({event.group for event in events}):
        found += _messages_of_group(wishes, [event for event in events if event.group == group])
    return sorted(found, key=lambda message: (message.at_us, message.events))


def _messages_of_group(wishes: Wishes, events: list[Facts]) -> list[Message]:
    found: list[Message] = []
    waiting: list[int] = []
    due_us = 0
    for place in _news(wishes.when, events):
        now_us = events[place].event_id
        if waiting and due_us <= now_us:
            found.append(Message(tuple(waiting), due_us))
            waiting = []
        if not waiting:
            due_us = _time_to_send(wishes, now_us, found[-1].at_us if found else None)
        waiting.append(now_us)
        if due_us == now_us:
            found.append(Message(tuple(waiting), now_us))
            waiting = []
    return [*found, Message(tuple(waiting), due_us)] if waiting else found


def _news(when: str, events: list[Facts]) -> list[int]:
    """The places of the events that are worth a message."""
    news: list[int] = []
    for place, event in enumerate(events):
        wanted = event.passes and not event.is_muted
        if when == "every":
            if wanted:
                news.append(place)
        elif event.outcome == "failure":
            if wanted and when.startswith("failures") and _streak(events[: place + 1]) == int(when[9:-1]):
                news.append(place)
        elif event.outcome in ("success", "recovery") and wanted and _ends_trouble(when, events, news, place):
            news.append(place)
    return news


def _streak(events: list[Facts]) -> int:
    """The failures since the last success."""
    count = 0
    for event in reversed(events):
        if event.outcome in ("success", "recovery"):
            break
        count += event.outcome == "failure" and event.passes and not event.is_muted
    return count


def _ends_trouble(when: str, events: list[Facts], news: list[int], place: int) -> bool:
    """Whether trouble was known before this success. If nothing was known at all, a recovery says that there was."""
    is_known = trouble = False
    for earlier, event in enumerate(events[:place]):
        if event.outcome == "failure" and not event.is_muted:
            if when == "recovered":
                is_known = trouble = True
            elif event.passes:
                is_known = True
                trouble = trouble or earlier in news
        elif event.outcome in ("success", "recovery") and (event.is_muted or earlier in news):
            is_known, trouble = True, False
    return trouble or (not is_known and events[place].outcome == "recovery")


def _time_to_send(wishes: Wishes, now_us: int, last_us: int | None) -> int:
    earliest_us = now_us + wishes.window_us
    if wishes.throttle_us and last_us is not None:
        earliest_us = max(earliest_us, last_us + wishes.throttle_us)
    if wishes.snooze and wishes.snooze[0] <= now_us < wishes.snooze[1]:
        earliest_us = max(earliest_us, wishes.snooze[1])
    if wishes.times:
        earliest_us = _next_step(max(earliest_us, now_us + 1))
        while not _is_digest_time(wishes, earliest_us):
            earliest_us += STEP_US
    while True:
        if wishes.snooze and wishes.snooze[0] <= earliest_us < wishes.snooze[1]:
            earliest_us = wishes.snooze[1]
        elif _is_quiet(wishes, earliest_us):
            earliest_us = _next_step(earliest_us + 1)
        else:
            return earliest_us


def _next_step(time_us: int) -> int:
    return -(-time_us // STEP_US) * STEP_US


def _local(wishes: Wishes, time_us: int) -> datetime:
    return (EPOCH + timedelta(microseconds=time_us)).astimezone(ZoneInfo(wishes.zone))


def _is_digest_time(wishes: Wishes, time_us: int) -> bool:
    local = _local(wishes, time_us)
    return local.fold == 0 and f"{local:%H:%M}" in wishes.times


def _is_quiet(wishes: Wishes, time_us: int) -> bool:
    if wishes.quiet is None:
        return False
    start, end = wishes.quiet
    now = f"{_local(wishes, time_us):%H:%M}"
    return start <= now < end if start <= end else now >= start or now < end
