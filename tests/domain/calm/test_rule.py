"""The fields of calm observers, and the times until which messages are held."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from chalicelib.domain.calm.rule import CalmFields, CalmRule

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, fold: int = 0) -> int:
    """The time of a clock in Berlin, in microseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("fields", "event", "released"),
    [
        ({}, "2026-05-04 12:00", "2026-05-04 12:00"),
        ({"when": "change"}, "2026-05-04 12:00", "2026-05-04 12:00"),
        ({"digest": "10m0s"}, "2026-05-04 12:00", "2026-05-04 12:10"),
        ({"digest": "PT1H"}, "2026-05-04 12:00", "2026-05-04 13:00"),
        ({"digest": "08:00, 16:00"}, "2026-05-04 12:00", "2026-05-04 16:00"),
        ({"digest": "08:00,16:00"}, "2026-05-04 16:00", "2026-05-05 08:00"),
        ({"digest": "16:00 , 08:00"}, "2026-05-04 17:00", "2026-05-05 08:00"),
        ({"quiet": "22:00-07:00"}, "2026-05-04 23:30", "2026-05-05 07:00"),
        ({"quiet": "22:00-07:00"}, "2026-05-04 06:59", "2026-05-04 07:00"),
        ({"quiet": "22:00-07:00"}, "2026-05-04 07:00", "2026-05-04 07:00"),
        ({"quiet": "12:00-13:00"}, "2026-05-04 12:30", "2026-05-04 13:00"),
        ({"quiet": "12:00-12:00"}, "2026-05-04 12:00", "2026-05-04 12:00"),
        ({"quiet": "22:00-07:00", "digest": "1h"}, "2026-05-04 21:30", "2026-05-05 07:00"),
        ({"quiet": "22:00-07:00", "digest": "23:00"}, "2026-05-04 21:30", "2026-05-05 07:00"),
        # Local times that do not exist, or exist twice, when the clocks change.
        ({"digest": "02:30"}, "2026-03-29 01:00", "2026-03-29 03:30"),
        ({"quiet": "22:00-02:30"}, "2026-03-28 23:00", "2026-03-29 03:30"),
        ({"quiet": "22:00-07:00"}, "2026-03-28 23:00", "2026-03-29 07:00"),
        ({"quiet": "22:00-07:00"}, "2026-10-24 23:00", "2026-10-25 07:00"),
    ],
)
def test_message_is_released(fields: dict[str, str], event: str, released: str) -> None:
    rule = CalmRule.of(CalmFields(**fields), default_zone="Europe/Berlin")
    assert rule.release_us(at(event), None) == at(released)


def test_message_is_released_once_in_repeated_hour() -> None:
    rule = CalmRule.of(CalmFields(digest="02:30", time_zone="Europe/Berlin"))
    assert rule.release_us(at("2026-10-25 02:10"), None) == at("2026-10-25 02:30")
    assert rule.release_us(at("2026-10-25 02:10", fold=1), None) == at("2026-10-26 02:30")


def test_quiet_hours_include_repeated_hour() -> None:
    rule = CalmRule.of(CalmFields(quiet="22:00-02:30", time_zone="Europe/Berlin"))
    assert rule.release_us(at("2026-10-25 02:10", fold=1), None) == at("2026-10-25 02:30", fold=1)


def test_throttle_counts_from_last_message() -> None:
    rule = CalmRule.of(CalmFields(throttle="30m0s"))
    noon = at("2026-05-04 12:00")
    assert rule.release_us(noon, None) == noon
    assert rule.release_us(noon, at("2026-05-04 11:50")) == at("2026-05-04 12:20")
    assert rule.release_us(noon, at("2026-05-04 11:30")) == noon


def test_snooze_holds_messages_until_its_end() -> None:
    snooze = (at("2026-05-04 12:00"), at("2026-05-04 23:00"))
    rule = CalmRule.of(CalmFields(quiet="22:00-07:00", time_zone="Europe/Berlin"), snoozes=(snooze,))
    assert rule.release_us(at("2026-05-04 11:59"), None) == at("2026-05-04 11:59")
    assert rule.release_us(at("2026-05-04 12:00"), None) == at("2026-05-05 07:00")


def test_unknown_zone_counts_as_utc() -> None:
    rule = CalmRule.of(CalmFields(quiet="22:00-07:00", time_zone="Mars/Olympus"))
    assert rule.release_us(at("2026-01-05 07:30"), None) == at("2026-01-05 08:00")


def test_infinite_durations_hold_for_ever() -> None:
    rule = CalmRule.of(CalmFields(digest="infinite", throttle="infinite"))
    assert rule.release_us(1, 1) > at("5000-01-01 00:00")


@pytest.mark.parametrize(
    ("fields", "is_calm"),
    [
        ({}, False),
        ({"when": "every"}, False),
        ({"group_by": ["node"], "time_zone": "UTC"}, False),
        ({"when": "change"}, True),
        ({"digest": "1s"}, True),
        ({"throttle": "1s"}, True),
        ({"quiet": "1"}, None),
    ],
)
def test_fields_are_calm(fields: dict[str, object], is_calm: bool | None) -> None:
    if is_calm is None:
        with pytest.raises(ValidationError, match="quiet hours are written as 22:00-07:00"):
            CalmFields.model_validate(fields)
    else:
        assert CalmFields.model_validate(fields).is_calm is is_calm


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("when", "failures(0)"),
        ("when", "failures(1000)"),
        ("when", "never"),
        ("when", "change\n"),
        ("group_by", []),
        ("group_by", ["job"]),
        ("group_by", "type"),
        ("digest", "8:00"),
        ("digest", "24:00"),
        ("digest", "08:00;16:00"),
        ("digest", ", ".join(["08:00"] * 25)),
        ("digest", ""),
        ("throttle", "soon"),
        ("throttle", 60),
        ("quiet", "22-7"),
        ("quiet", "22:00-24:00"),
        ("time_zone", "Europe Berlin"),
        ("time_zone", ""),
    ],
)
def test_fields_refuse_other_values(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        CalmFields.model_validate({field: value})
