"""Calm rules: the fields of an observer that limit its messages, and the times until which they hold messages."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from chalicelib.domain import durations
from chalicelib.domain.json_schema import pattern_of
from chalicelib.domain.model import Model

DAY_MINUTES = 24 * 60
MAX_DURATION_S = 1e11
"""Longer durations, and `infinite`, hold messages as long as this."""
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHEN = re.compile(r"every|change|recovered|failures\((?P<count>[1-9][0-9]{0,2})\)", re.ASCII)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIMES = re.compile(rf"{_TIME}(?: *, *{_TIME}){{0,23}}", re.ASCII)
_QUIET = re.compile(rf"(?P<start>{_TIME}) *- *(?P<end>{_TIME})", re.ASCII)

GroupBy = Literal["type", "node", "key"]


def _text(check: Callable[[str], object], pattern: str, example: str) -> tuple[AfterValidator, WithJsonSchema]:
    def validate(value: str) -> str:
        check(value)
        return value

    return AfterValidator(validate), WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


def _check_when(text: str) -> None:
    if _WHEN.fullmatch(text) is None:
        raise ValueError("when is every, change, recovered or failures(n), with n from 1 to 999")


def _check_digest(text: str) -> None:
    if _TIMES.fullmatch(text) is None:
        try:
            durations.parse(text)
        except ValueError as error:
            raise ValueError(f"{error}; or times of day such as '08:00, 16:00', at most 24") from error


def _check_quiet(text: str) -> None:
    if _QUIET.fullmatch(text) is None:
        raise ValueError("quiet hours are written as 22:00-07:00")


_DURATION_PATTERN = str(durations.DURATION_SCHEMA["pattern"])
_CHECK_WHEN = _text(_check_when, pattern_of(_WHEN), "change")
_CHECK_DIGEST = _text(_check_digest, f"{_DURATION_PATTERN}|{pattern_of(_TIMES)}", "08:00, 16:00")
_CHECK_THROTTLE = _text(durations.parse, _DURATION_PATTERN, "30m0s")
_CHECK_QUIET = _text(_check_quiet, pattern_of(_QUIET), "22:00-07:00")


class CalmFields(Model):
    """The fields of an observer that limit its messages. Without any, each event is a message."""

    when: Annotated[str, *_CHECK_WHEN] | None = None
    group_by: Annotated[tuple[GroupBy, ...], Field(min_length=1, max_length=3)] | None = None
    digest: Annotated[str, *_CHECK_DIGEST] | None = None
    throttle: Annotated[str, *_CHECK_THROTTLE] | None = None
    quiet: Annotated[str, *_CHECK_QUIET] | None = None
    time_zone: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+/-]{1,64}$")] | None = None

    @property
    def is_calm(self) -> bool:
        """Whether the fields limit messages. `group_by` and `time_zone` alone do not."""
        has_condition = self.when is not None and self.when != "every"
        return has_condition or any(field is not None for field in (self.digest, self.throttle, self.quiet))


Snooze = tuple[int, int]
"""Start and end of a snooze, in microseconds since 1970."""


@dataclass(frozen=True)
class CalmRule:
    """The parsed fields."""

    when: Literal["every", "failures", "recovered"] = "every"
    threshold: int = 1
    """The number of failures in a row that `failures` reports. `change` is `failures(1)`."""
    group_by: tuple[GroupBy, ...] = ("type",)
    window_us: int = 0
    times: tuple[int, ...] = ()
    """Times of day of digests, in minutes."""
    throttle_us: int = 0
    quiet: tuple[int, int] | None = None
    """Start and end of the quiet hours, in minutes of the day."""
    zone: str = "UTC"
    snoozes: tuple[Snooze, ...] = ()

    @classmethod
    def of(cls, fields: CalmFields, default_zone: str = "UTC", snoozes: tuple[Snooze, ...] = ()) -> "CalmRule":
        when = _WHEN.fullmatch(fields.when or "every")
        kind = when[0] if when else "every"
        digest, quiet = fields.digest or "", _QUIET.fullmatch(fields.quiet or "")
        has_times = _TIMES.fullmatch(digest) is not None
        return cls(
            when="every" if kind == "every" else "recovered" if kind == "recovered" else "failures",
            threshold=int(when["count"] or 1) if when else 1,
            group_by=fields.group_by or ("type",),
            window_us=_duration_us(digest) if digest and not has_times else 0,
            times=tuple(sorted(map(_minute, digest.split(",")))) if has_times else (),
            throttle_us=_duration_us(fields.throttle) if fields.throttle else 0,
            quiet=(_minute(quiet["start"]), _minute(quiet["end"])) if quiet else None,
            zone=fields.time_zone or default_zone,
            snoozes=snoozes,
        )

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the times until which messages are held."""
        parts = (self.window_us, self.times, self.throttle_us, self.quiet, self.zone, self.snoozes)
        return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()

    def release_us(self, time_us: int, sent_us: int | None) -> int:
        """When a message that arises at `time_us` may be sent. `sent_us` is the time of its group's last message."""
        at_us = max(self._snooze_end_us(time_us), time_us + self.window_us)
        if self.throttle_us and sent_us is not None:
            at_us = max(at_us, sent_us + self.throttle_us)
        if self.times:
            at_us = self._digest_time_us(max(at_us, time_us + 1))
        while (moved_us := self._quiet_end_us(self._snooze_end_us(at_us))) != at_us:
            at_us = moved_us
        return at_us

    def _snooze_end_us(self, time_us: int) -> int:
        return max((end for start, end in self.snoozes if start <= time_us < end), default=time_us)

    def _digest_time_us(self, time_us: int) -> int:
        """The first time of a digest at or after `time_us`."""
        today = self._local(time_us).date()
        candidates = (self._at(today + timedelta(days=day), minute) for day in (0, 1, 2) for minute in self.times)
        return min(candidate for candidate in candidates if candidate >= time_us)

    def _quiet_end_us(self, time_us: int) -> int:
        """The first time at or after `time_us` that is not in the quiet hours."""
        if self.quiet is None or not self._is_quiet(time_us):
            return time_us
        today, end = self._local(time_us).date(), self.quiet[1]
        # A local time exists twice or not at all when the clocks change.
        candidates = (self._at(today + timedelta(days=day), end, fold) for day in (0, 1, 2) for fold in (0, 1))
        return min(candidate for candidate in candidates if candidate > time_us and not self._is_quiet(candidate))

    def _is_quiet(self, time_us: int) -> bool:
        if self.quiet is None:
            return False
        start, end = self.quiet
        local = self._local(time_us)
        minute = local.hour * 60 + local.minute
        return start <= minute < end if start <= end else minute >= start or minute < end

    def _local(self, time_us: int) -> datetime:
        return (_EPOCH + timedelta(microseconds=time_us)).astimezone(self._zone)

    def _at(self, day: date, minute: int, fold: int = 0) -> int:
        local = datetime.combine(day, time(minute // 60, minute % 60, fold=fold), self._zone)
        return (local.astimezone(UTC) - _EPOCH) // _MICROSECOND

    @cached_property
    def _zone(self) -> ZoneInfo:
        """UTC if this machine does not know the zone. It was checked when the observer was configured."""
        try:
            return ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError):
            return ZoneInfo("UTC")


def _duration_us(text: str) -> int:
    return int(min(durations.parse(text), MAX_DURATION_S) * 1_000_000)


def _minute(text: str) -> int:
    hours, _, minutes = text.strip().partition(":")
    return int(hours) * 60 + int(minutes)
