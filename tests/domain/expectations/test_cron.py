"""Cron expressions, compared with the local time of every minute, also where clocks change."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.domain import timestamps
from chalicelib.domain.expectations.cron import check_cron, next_cron_slot, shortest_interval_us
from tests.domain.expectations.reference import cron_slots

DAY_US = 24 * 3600 * 1_000_000
CHANGES = {
    "UTC": ("2026-03-29T01:00:00Z",),
    "Europe/Berlin": ("2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"),
    "America/New_York": ("2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"),
    "Asia/Kolkata": ("2026-06-01T00:00:00Z",),
}
"""Zones, and the times at which their clocks change."""
PLACES = [(zone, time) for zone, times in CHANGES.items() for time in times]
EXPRESSIONS = (
    "30 2 * * *",
    "15,45 1,2,3 * * *",
    "0 0 * * *",
    "0 * * * *",
    "*/15 * * * *",
    "*/20 2 * * *",
    "5 */3 * * *",
)


@given(place=st.sampled_from(PLACES), expression=st.sampled_from(EXPRESSIONS), offset_s=st.integers(-86_400, 86_400))
@settings(max_examples=150, deadline=None)
def test_next_cron_slot_matches_minutes_of_local_time(place: tuple[str, str], expression: str, offset_s: int) -> None:
    zone, change = place
    start = timestamps.parse(change) + offset_s * 1_000_000
    expected = cron_slots(expression, zone, start, start + 2 * DAY_US)
    slots, time = list[int](), start
    while (slot := next_cron_slot(expression, zone, time)) is not None and slot <= start + 2 * DAY_US:
        slots.append(slot)
        time = slot
    assert slots == expected


@pytest.mark.parametrize(
    ("after", "expression", "slot"),
    [
        ("2026-03-28T12:00:00Z", "30 2 * * *", "2026-03-29T01:00"),
        ("2026-03-28T23:30:00Z", "*/30 2 * * *", "2026-03-30T00:00"),
        ("2026-10-24T12:00:00Z", "30 2 * * *", "2026-10-25T00:30"),
        ("2026-10-25T00:30:00Z", "30 2 * * *", "2026-10-26T01:30"),
        ("2026-10-25T00:59:59Z", "*/30 2 * * *", "2026-10-25T01:00"),
    ],
    ids=["gap", "gap-wildcard", "overlap", "overlap-once", "overlap-wildcard"],
)
def test_next_cron_slot_where_clocks_change(after: str, expression: str, slot: str) -> None:
    found = next_cron_slot(expression, "Europe/Berlin", timestamps.parse(after))
    assert found is not None
    assert timestamps.iso(found).startswith(slot)


@pytest.mark.parametrize(
    ("expression", "zone", "reason"),
    [
        ("@daily", "UTC", "names such as '@daily' are not supported"),
        ("* * * *", "UTC", "is not a cron expression; it has five fields"),
        ("0 * * * * *", "UTC", "is not a cron expression; it has five fields"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("0 0 31 2 *", "UTC", "never fires"),
        ("0 0 */29 2 MON#3", "UTC", "never fires"),
        ("0 2 * * *", "Europe/Atlantis", "unknown time zone 'Europe/Atlantis'; use an IANA name"),
        ("0 2 * * *", "Europe", "unknown time zone"),
        ("0 2 * * *", "/etc/localtime", "unknown time zone"),
        ("0 2 * * *", "../../etc/passwd", "unknown time zone"),
    ],
)
def test_check_cron_refuses_with_reason(expression: str, zone: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("*", r"\*")):
        check_cron(expression, zone)


@given(st.text("0123456789*/,-#LW@ MONJA²", max_size=30))
@settings(max_examples=500, deadline=None)
def test_check_cron_raises_only_value_errors(text: str) -> None:
    with suppress(ValueError):
        check_cron(text, "UTC")


def test_shortest_interval_is_that_between_close_slots() -> None:
    assert shortest_interval_us("0,10 2 * * *", "UTC") == 600 * 1_000_000
