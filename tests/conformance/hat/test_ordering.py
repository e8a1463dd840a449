"""Hat's order of events (H-O)."""

from itertools import permutations

import pytest

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from tests.builders import a_text


def event(text: str) -> Event:
    """Parse `server.session.instance @time`."""
    id_, _, at = text.partition(" @")
    return Event(Id.parse(id_), int(at), int(at), a_text())


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        pytest.param("1.1.1 @5", "1.1.2 @5", id="H-O01"),
        pytest.param("1.1.2 @5", "1.2.1 @6", id="H-O/session"),
        pytest.param("1.1.1 @7", "1.2.1 @5", id="H-O/id-over-time-within-a-server"),
        pytest.param("2.1.1 @4", "1.1.1 @5", id="H-O03"),
        pytest.param("1.9.9 @4", "2.1.1 @5", id="H-O/time-over-id-across-servers"),
        pytest.param("1.1.1 @5", "2.1.1 @5", id="H-O/same-time-on-two-servers"),
    ],
)
def test_events_are_ordered(smaller: str, greater: str) -> None:
    first, second = event(smaller), event(greater)
    assert (first < second, first > second, second < first, second > first, first == second) == (
        True,
        False,
        False,
        True,
        False,
    )


def test_events_with_same_id_are_equal() -> None:  # H-O05
    first, second = event("1.1.1 @5"), event("1.1.1 @7")
    assert (first < second, first > second, first == second, len({first, second})) == (False, False, True, 1)


def test_events_sort_by_time_and_id_from_any_order() -> None:  # H-Q33
    in_order = [event(text) for text in ("1.1.1 @10", "1.1.2 @10", "2.1.1 @15", "1.2.1 @20")]
    assert all(sorted(shuffled) == in_order for shuffled in permutations(in_order))
