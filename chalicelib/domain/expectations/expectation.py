"""Expectations: their configuration, and the events that store it in the configuration log."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    Strict,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from chalicelib.domain import durations
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import SUBTYPE_REGEX
from chalicelib.domain.expectations.cron import MAX_CRON_LENGTH, check_cron, next_cron_slot, shortest_interval_us
from chalicelib.domain.expectations.expectation_schema import EXPECTATION_SCHEMA
from chalicelib.domain.json_schema import pattern_of
from chalicelib.domain.model import Model
from chalicelib.domain.queries.event_filter import Selection

MIN_INTERVAL_S = 60
MAX_DURATION_S = 366 * 24 * 3600
DEFAULT_GRACE_S = 300
SECOND_US = 1_000_000

JOB_KEY_PATTERN = r"^/job/(?:0|[1-9][0-9]{0,15})$"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
NAME_PATTERN = pattern_of(_NAME)
KEY_PREFIX = "/expectation/"

_STORED: Final = "stored"
"""Validation context of configurations in the log. A rule that becomes stricter must not make the log unreadable."""


def _within(min_s: float, max_s: float) -> Callable[[float], float]:
    def check(seconds: float) -> float:
        if not min_s <= seconds <= max_s:
            raise ValueError(f"must be between {durations.iso(min_s)} and {durations.iso(max_s)}")
        return seconds

    return check


_parse = BeforeValidator(durations.parse)
_as_iso = PlainSerializer(durations.iso, return_type=str)

Interval = Annotated[
    float,
    _parse,
    AfterValidator(_within(MIN_INTERVAL_S, MAX_DURATION_S)),
    _as_iso,
    durations.duration_schema(MIN_INTERVAL_S),
]
Grace = Annotated[float, _parse, AfterValidator(_within(0, MAX_DURATION_S)), _as_iso, durations.duration_schema()]
Limit = Annotated[float, _parse, AfterValidator(_within(1, MAX_DURATION_S)), _as_iso, durations.duration_schema(1)]
"""Durations that are stored and returned in ISO-8601."""

Subject = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=SUBTYPE_REGEX)]


class Expectation(Model):
    """When a job is expected to run, and for how long.

    `type` selects the runs of a job type, perhaps on one `node`. `key` selects those of a single job.
    """

    model_config = ConfigDict(json_schema_extra=EXPECTATION_SCHEMA)

    type: Subject | None = None
    node: Subject | None = None
    key: Annotated[str, StringConstraints(max_length=40, pattern=JOB_KEY_PATTERN)] | None = None
    every: Interval | None = None
    cron: Annotated[str, StringConstraints(max_length=MAX_CRON_LENGTH)] | None = None
    time_zone: Annotated[str, StringConstraints(max_length=100)] | None = None
    grace: Grace | None = None
    max_duration: Limit | None = None
    max_silence: Limit | None = None
    min_interval: Limit | None = None
    paused: Annotated[bool, Strict()] = False
    description: Annotated[str, StringConstraints(max_length=2_000)] | None = None

    @model_validator(mode="after")
    def _validate_fields(self, info: ValidationInfo) -> Self:
        if info.context == _STORED:
            return self
        self._check_subject()
        self._check_triggers()
        if self.cron is not None:
            check_cron(self.cron, self.zone)
            shortest_s = shortest_interval_us(self.cron, self.zone) / SECOND_US
            if shortest_s and self.grace is not None and self.grace > shortest_s:
                raise ValueError(
                    f"grace ({durations.iso(self.grace)}) is longer than the shortest time between two runs of cron "
                    f"'{self.cron}'; use at most {durations.iso(shortest_s)}, or every instead of cron"
                )
        return self

    def _check_subject(self) -> None:
        if (self.type is None) == (self.key is None):
            raise ValueError("give either type, the type of the jobs, or key, the key of one job such as /job/117")
        if self.key is not None and self.node is not None:
            raise ValueError("node is only for an expectation with type")

    def _check_triggers(self) -> None:
        if self.every is not None and self.cron is not None:
            raise ValueError("give either every or cron, not both")
        if not self.has_schedule and not (self.max_duration or self.max_silence or self.min_interval):
            raise ValueError("give at least one of every, cron, max_duration, max_silence and min_interval")
        if self.time_zone is not None and self.cron is None:
            raise ValueError("time_zone is only for an expectation with cron")
        if self.grace is not None and not self.has_schedule:
            raise ValueError("grace is only for an expectation with every or cron")

    @property
    def has_schedule(self) -> bool:
        return self.every is not None or self.cron is not None

    @property
    def zone(self) -> str:
        return self.time_zone or "UTC"

    @property
    def subject(self) -> tuple[str | None, str | None, str | None]:
        """The runs that the expectation is about."""
        return self.type, self.node, self.key

    @property
    def rule(self) -> "Expectation":
        """All that alarms depend on."""
        return self.model_copy(update={"description": None})

    @property
    def grace_us(self) -> int:
        """The time after a slot until the run is missed. By default 5 minutes, or less between frequent slots."""
        if self.grace is not None:
            return round(self.grace * SECOND_US)
        if self.cron is not None:
            return min(DEFAULT_GRACE_S * SECOND_US, shortest_interval_us(self.cron, self.zone) or SECOND_US)
        return min(DEFAULT_GRACE_S * SECOND_US, round((self.every or 0) * SECOND_US))

    def next_slot(self, previous_us: int) -> int | None:
        """The slot that follows another one, or a start if runs are expected at an interval."""
        if self.every is not None:
            return previous_us + round(self.every * SECOND_US)
        return None if self.cron is None else next_cron_slot(self.cron, self.zone, previous_us)

    def first_slot(self, last_start_us: int | None, since_us: int) -> int | None:
        """The first slot after `since_us`."""
        if self.every is None:
            return self.next_slot(since_us)
        if last_start_us is None:
            return self.next_slot(since_us + 1)
        every_us = round(self.every * SECOND_US)
        return last_start_us + max((since_us - last_start_us) // every_us + 1, 1) * every_us

    def selections(self) -> tuple[Selection, ...]:
        """The events of the runs, and of others that cannot be told apart by type and key."""
        if self.key is not None:
            return (Selection(keys=(self.key,)),)
        job_type = self.type or ""
        types: tuple[tuple[str, ...], ...] = (
            ("job", "create", self.node or "?", job_type),
            ("job", "finish", "?", job_type),
            ("job", "clean", "?", job_type),
        )
        if self.max_silence is not None:
            types = (*types, ("job", "progress", "?", job_type), ("job", "redirect", "?"))
        return (Selection(types=types),)

    @property
    def members(self) -> dict[str, Any]:
        """The JSON of the configuration."""
        return self.model_dump(exclude_none=True)


@dataclass(frozen=True, slots=True)
class Version:
    """A configuration of an expectation, from a time on."""

    expectation: Expectation
    since: int
    """EventId of the last event of the log when it was configured."""
    at_us: int
    """It holds for times and EventIds after this one."""


@dataclass(frozen=True, slots=True)
class Configured:
    """An expectation since it was created, with all its versions. Deleting it ends it."""

    name: str
    created: int
    """EventId of its creation in the configuration log."""
    expectation: Expectation
    """The current configuration."""
    since: int
    versions: tuple[Version, ...]
    """In order, without those that only change the description."""

    @property
    def json(self) -> dict[str, Any]:
        return {"name": self.name, **self.expectation.members, "since": self.since}


@dataclass(frozen=True, slots=True)
class ExpectationsState:
    """The expectations of an organization, according to its configuration log."""

    expectations: Mapping[str, Configured] = field(default_factory=dict)

    def fold(self, event: Event) -> "ExpectationsState":
        """The state after `event`."""
        name = (event.fields.key or "").removeprefix(KEY_PREFIX)
        others = {other: one for other, one in self.expectations.items() if other != name}
        match event.fields.type:
            case ("expectation", "put"):
                data = event.fields.payload["data"]
                expectation = Expectation.model_validate(data["configuration"], context=_STORED)
                configured = _configure(self.expectations.get(name), name, expectation, data["since"], event.event_id)
                return ExpectationsState({**others, name: configured})
            case ("expectation", "deleted"):
                return ExpectationsState(others)
            case _:
                return self


def _configure(before: Configured | None, name: str, expectation: Expectation, since: int, event_id: int) -> Configured:
    # The next event may come in the same microsecond, because the logs have EventIds of their own.
    at_us = max(since, event_id - 1)
    if before is None:
        version = Version(expectation, since, at_us)
        return Configured(name, event_id, expectation, since, (version,))
    last, versions = before.versions[-1], before.versions
    if last.expectation.rule != expectation.rule:
        # A clock that was set back must not let a version end before it begins.
        versions = (*versions, Version(expectation, since, max(at_us, last.at_us)))
    return Configured(name, before.created, expectation, before.since, versions)


def check_name(name: str) -> str:
    """Return `name`. Raises `BadInput` if it is not valid."""
    if _NAME.fullmatch(name) is None:
        raise BadInput(
            "an expectation's name has 1 to 100 letters, digits, '.', '-' and '_', and begins with a letter or digit"
        )
    return name


def expectation_key(name: str) -> str:
    """The key of the events that configure an expectation, and of its alarms."""
    return f"{KEY_PREFIX}{name}"


def put_event(name: str, expectation: Expectation, since: int) -> NewEvent:
    """The event that configures an expectation."""
    data = {"configuration": expectation.members, "since": since}
    return NewEvent(type=("expectation", "put"), key=expectation_key(name), payload=JsonPayload(type="json", data=data))


def deletion_event(name: str) -> NewEvent:
    """The event that deletes an expectation."""
    return NewEvent(type=("expectation", "deleted"), key=expectation_key(name))
