"""Hat's event types: matching (H-M), subscriptions (H-S), timestamps (H-T)."""

import json
import re
from itertools import pairwise

import pytest
from pydantic import TypeAdapter, ValidationError

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event, NewEvent, encode
from chalicelib.domain.events.event_type import EventType, Pattern, matches
from chalicelib.domain.events.ids import Id
from chalicelib.domain.queries.event_filter import Selection
from tests.serving import Member


def split_type(text: str) -> EventType:
    """Split `a/b`. The empty text is the empty type."""
    return tuple(text.split("/")) if text else ()


@pytest.mark.parametrize(
    ("event_type", "query", "expected"),
    [
        pytest.param("", "", True, id="H-M01"),
        pytest.param("", "*", True, id="H-M02"),
        pytest.param("", "?", False, id="H-M03"),
        pytest.param("a", "", False, id="H-M04"),
        pytest.param("a", "*", True, id="H-M/a-any"),
        pytest.param("a", "?", True, id="H-M06"),
        pytest.param("a", "?/*", True, id="H-M07"),
        pytest.param("a", "?/?", False, id="H-M/a-two"),
        pytest.param("a", "a", True, id="H-M09"),
        pytest.param("a", "a/*", True, id="H-M10"),
        pytest.param("a", "a/?", False, id="H-M/a-and-one"),
        pytest.param("a", "b", False, id="H-M12"),
        pytest.param("a", "a/b", False, id="H-M13"),
        pytest.param("a", "a/b/*", False, id="H-M/a-and-b-and-any"),
        pytest.param("a/b", "*", True, id="H-M15"),
        pytest.param("a/b", "?", False, id="H-M16"),
        pytest.param("a/b", "?/*", True, id="H-M/ab-one-and-any"),
        pytest.param("a/b", "?/?", True, id="H-M18"),
        pytest.param("a/b", "?/?/*", True, id="H-M19"),
        pytest.param("a/b", "?/?/?", False, id="H-M/ab-three"),
        pytest.param("a/b", "a", False, id="H-M21"),
        pytest.param("a/b", "a/*", True, id="H-M22"),
        pytest.param("a/b", "a/?", True, id="H-M/ab-a-and-one"),
        pytest.param("a/b", "a/?/*", True, id="H-M24"),
        pytest.param("a/b", "a/?/?", False, id="H-M25"),
        pytest.param("a/b", "?/b", True, id="H-M/ab-one-and-b"),
        pytest.param("a/b", "?/b/*", True, id="H-M27"),
        pytest.param("a/b", "?/b/?", False, id="H-M28"),
        pytest.param("a/b", "a/b", True, id="H-M/ab-itself"),
        pytest.param("a/b", "a/b/*", True, id="H-M/ab-itself-and-any"),
        pytest.param("a/b", "b/a", False, id="H-M/ab-reversed"),
        pytest.param("a/b", "a/b/c", False, id="H-M30"),
        pytest.param("a/b/c", "a/?/c", True, id="H-M31"),
        pytest.param("a/b/c", "a/?/d", False, id="H-M/abc-wrong-end"),
        pytest.param("a/b/c", "a/*", True, id="H-M/abc-a-and-any"),
        pytest.param("a/b/c", "?/?/c", True, id="H-M/abc-two-and-c"),
        pytest.param("a/b/c", "a/b", False, id="H-M/abc-prefix"),
        pytest.param("", "?/*", False, id="H-M33"),
        pytest.param("", "a", False, id="H-M/empty-a"),
        pytest.param("", "?/?", False, id="H-M/empty-two"),
        pytest.param("a//b", "a//b", True, id="H-M/empty-subtype-itself"),
        pytest.param("a//b", "a/?/b", True, id="H-M/empty-subtype-one"),
        pytest.param("a//b", "a/b", False, id="H-M/empty-subtype-left-out"),
        pytest.param("a/b", "a//b", False, id="H-M/empty-subtype-added"),
        pytest.param("a/", "a", False, id="H-M/empty-end"),
        pytest.param("a/", "a/*", True, id="H-M/empty-end-and-any"),
        pytest.param("/a", "?/a", True, id="H-M/empty-start"),
        pytest.param("/a", "a", False, id="H-M/empty-start-left-out"),
        pytest.param("/", "?/?", True, id="H-M/two-empty-subtypes"),
        pytest.param("/", "", False, id="H-M/two-empty-subtypes-and-none"),
    ],
)
def test_query_type_matches_event_types(event_type: str, query: str, expected: bool) -> None:
    assert matches(split_type(event_type), split_type(query)) is expected


@pytest.mark.parametrize(
    ("types", "selected"),
    [
        pytest.param([], [], id="H-S09"),
        pytest.param([""], [""], id="H-S10"),
        pytest.param(["*"], ["", "a", "a/b", "b"], id="H-S11"),
        pytest.param(["a"], ["a"], id="H-S12"),
        pytest.param(["a", "b"], ["a", "b"], id="H-S/union"),
        pytest.param(["a/*", "a"], ["a", "a/b"], id="H-S/overlap"),
        pytest.param(["?/?"], ["a/b"], id="H-S/two"),
        pytest.param(["a/*", ""], ["", "a", "a/b"], id="H-S/empty-or-a"),
        pytest.param(["c/*"], [], id="H-S/nothing"),
    ],
)
def test_subscription_is_union_of_query_types(types: list[str], selected: list[str]) -> None:
    selection = Selection(types=tuple(map(split_type, types)))
    assert [text for text in ("", "a", "a/b", "b") if selection.selects(_event(split_type(text)))] == selected


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("*/a", id="H-S15/first"),
        pytest.param("a/*/b", id="H-S15/middle"),
        pytest.param("*/b", id="H-M34"),
        pytest.param("*/*", id="H-S/twice"),
    ],
)
def test_query_type_with_star_before_end_is_invalid(query: str) -> None:
    with pytest.raises(ValidationError, match=r"'\*' is only allowed at the end of a pattern"):
        TypeAdapter[EventType](Pattern).validate_python(query)


@pytest.mark.parametrize("query", [pytest.param("*/b", id="H-M34"), pytest.param("a/*/b", id="H-S15")])
def test_request_with_star_before_end_is_rejected(query: str, member: Member) -> None:
    answer = member.get("/events", params={"types": query})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        f"types.0: '*' is only allowed at the end of a pattern, not as in '{query}'",
    )


EMPTY_SUBTYPES: list[list[str]] = [[], [""], ["", ""], ["a", "", "b"], ["a", "b"], ["a", ""], ["", "a"], ["a"]]


def test_empty_subtypes_are_stored_and_selected(member: Member) -> None:
    answer = member.post({"events": [{"type": event_type} for event_type in EMPTY_SUBTYPES]})
    assert answer.status_code == 201, answer.text
    assert [event["type"] for event in member.read_log()["events"]] == EMPTY_SUBTYPES
    for event_type in EMPTY_SUBTYPES:
        body = {"types": [event_type]}
        for path in ("/events/latest", "/events/timeseries"):
            found = member.request("POST", path, json=body).json()["events"]
            assert [event["type"] for event in found] == [event_type]
        refused = member.post({"events": [{"type": ["x"]}], "condition": {"failIfEventsMatch": body}})
        assert (refused.status_code, refused.json()["title"]) == (409, "Conflict"), refused.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [[]]),
        ("/", [["", ""]]),
        ("a//b", [["a", "", "b"]]),
        ("a/", [["a", ""]]),
        ("/a", [["", "a"]]),
        ("?", [[""], ["a"]]),
        ("/*", [[""], ["", ""], ["", "a"]]),
        ("a//*", [["a", "", "b"], ["a", ""]]),
        ("?/?", [["", ""], ["a", "b"], ["a", ""], ["", "a"]]),
    ],
)
@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/event-stream"])
def test_empty_subtypes_are_selected_by_text(text: str, expected: list[list[str]], accept: str, member: Member) -> None:
    assert member.post({"events": [{"type": event_type} for event_type in EMPTY_SUBTYPES]}).status_code == 201
    answer = member.get("/events", params={"types": text, "timeout": "0s"}, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    found = re.findall(r'"type":(\[.*?\]),"key"', answer.text)
    assert list(map(json.loads, found)) == expected
    latest = member.get("/events/latest", params={"types": text}).json()["events"]
    assert sorted(event["type"] for event in latest) == sorted(expected)


def test_times_are_ordered_by_microseconds() -> None:  # H-T01
    times = [(0, 0), (0, 1), (1, 0), (1, 1), (-1, 0), (-1, 1), (-1, 999_999)]
    in_order = sorted(times, key=lambda time: timestamps.parse({"s": time[0], "us": time[1]}))
    assert in_order == [(-1, 0), (-1, 1), (-1, 999_999), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(earlier < later for earlier, later in pairwise(in_order))


@pytest.mark.parametrize(
    ("text", "s", "us"),
    [
        pytest.param("1900-01-01T00:00:00.999999Z", -2_208_988_800, 999_999, id="H-T08/1900"),
        pytest.param("2100-12-31T23:59:59.000001Z", 4_133_980_799, 1, id="H-T08/2100"),
        pytest.param("1970-01-01T00:00:00.000000Z", 0, 0, id="H-T/epoch"),
        pytest.param("1969-12-31T23:59:59.999999Z", -1, 999_999, id="H-T/before-epoch"),
    ],
)
def test_time_as_text_and_object_are_equal(text: str, s: int, us: int) -> None:
    assert timestamps.parse(text) == timestamps.parse({"s": s, "us": us}) == 1_000_000 * s + us
    assert timestamps.iso(1_000_000 * s + us) == text


def _event(event_type: EventType) -> Event:
    return Event(Id(1, 1, 1), 1, 1, encode(NewEvent(type=event_type)).decode())
