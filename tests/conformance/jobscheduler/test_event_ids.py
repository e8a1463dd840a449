"""JobScheduler's EventIds (J-I) and durations (J-R10, J-R11)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.domain import durations, timestamps
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import next_event_id
from chalicelib.domain.log.commit import verify_contiguous
from tests.builders import a_commit
from tests.serving import Member

WRITERS = 4
REQUESTS = 25
EVENTS = 20


def test_event_ids_last_until_year_2255() -> None:  # J-I01
    assert timestamps.iso(2**53) == "2255-06-05T23:47:34.740992Z"


@pytest.mark.parametrize(
    ("after", "status"),
    [
        pytest.param(2**53 - 1, 200, id="J-I01/largest"),
        pytest.param(2**53, 400, id="J-I01/beyond"),
        pytest.param(-1, 400, id="J-I/negative"),
    ],
)
def test_event_id_above_53_bits_is_rejected(after: int, status: int, member: Member) -> None:
    assert member.get("/events", params={"after": after}).status_code == status


@pytest.mark.parametrize(
    ("now_ms", "last", "expected"),
    [
        pytest.param(1_478_257_656_606, 0, 1_478_257_656_606_000, id="J-I06/first"),
        pytest.param(1_000, 999_999, 1_000_000, id="J-I06/clock-ahead"),
        pytest.param(1_000, 1_000_000, 1_000_001, id="J-I06/same-millisecond"),
        pytest.param(1_000, 1_000_999, 1_001_000, id="J-I06/full-millisecond"),
        pytest.param(1_000, 9_999_999, 10_000_000, id="J-I06/clock-behind"),
    ],
)
def test_next_event_id_is_clock_or_successor(now_ms: int, last: int, expected: int) -> None:
    assert next_event_id(now_ms, last) == expected


def test_concurrent_writers_receive_distinct_event_ids(member: Member) -> None:  # J-I07
    def write(writer: int) -> list[int]:
        return [event["eventId"] for _ in range(REQUESTS) for event in member.publish(*[f"w/{writer}"] * EVENTS)]

    with ThreadPoolExecutor(WRITERS) as pool:
        event_ids = list(pool.map(write, range(WRITERS)))
    assert all(ids == sorted(ids) for ids in event_ids)
    assert len({event_id for ids in event_ids for event_id in ids}) == WRITERS * REQUESTS * EVENTS
    stored = [event["eventId"] for event in member.read_log()["events"]]
    assert stored == sorted(event_id for ids in event_ids for event_id in ids)


@pytest.mark.parametrize("at", [pytest.param(2_000, id="J-I10/equal"), pytest.param(1_999, id="J-I10/smaller")])
def test_event_id_not_above_last_is_rejected(at: int) -> None:
    head = Head(server=1, session=2, instance=1, last_event_id=2_000)
    with pytest.raises(LogBroken, match=rf"session 3 of server 1 \(prev 2000, at {at}\) does not follow session 2"):
        list(verify_contiguous(head, [a_commit(session=3, at=at)]))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1", 1.0, id="J-R10/plain"),
        pytest.param("0.123s", 0.123, id="J-R10/fraction"),
        pytest.param("PT0.123S", 0.123, id="J-R10/iso-fraction"),
        pytest.param("1m", 60.0, id="J-R10/minute"),
        pytest.param("1h2m3s", 3723.0, id="J-R10/all-units"),
        pytest.param("P1d", 86400.0, id="J-R10/iso-day"),
        pytest.param("infinite", float("inf"), id="J-R15"),
    ],
)
def test_duration_accepts_all_formats(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", [pytest.param(text, id=f"J-R11/{text}") for text in (".1", ".1s", "1d")])
def test_invalid_duration_is_rejected(text: str, member: Member) -> None:
    answer = member.get("/events", params={"timeout": text})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        f"timeout: a duration is 60, 60s, 0.5s, 1h2m3s or ISO-8601 such as PT1M, not '{text}'",
    )
