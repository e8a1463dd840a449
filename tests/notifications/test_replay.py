"""Replays: an observer is told again, in parts, and nothing else is disturbed."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from chalicelib.services.notifications.replay import PART_S, Replayed
from tests.notifications.narration import Teller, job
from tests.notifications.outside import Json
from tests.notifications.sites import Site


def replayed(anna: Teller, **body: object) -> Json:
    answer = anna.ask("POST", "ops/replay", body)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


@pytest.mark.parametrize("events", [1, 3])
def test_a_replay_tells_again_what_came_after_a_position(anna: Teller, events: int) -> None:
    ids = [event_id for number in range(4) for event_id in anna.publish(*(job("create", number),) * events)]
    anna.put("ops")
    found = replayed(anna, after=ids[events - 1])
    assert found == {
        "replay": found["replay"],
        "eventId": ids[-1],
        "until": ids[-1],
        "deliveries": 3 * events,
        "done": True,
    }
    assert anna.settled("ops", 3 * events) == {"sent": 3 * events}
    marks = [str(mail["X-Annals-Delivery"]) for mail in anna.world.mails(anna.address)]
    assert len(set(marks)) == 3 * events
    assert all(mark.endswith(f"/ops/replay-{found['replay']}") for mark in marks)


def test_a_replay_begins_at_a_position_within_a_commit(anna: Teller) -> None:
    ids = anna.publish(*(job("create", number) for number in range(5)))
    anna.put("ops")
    found = replayed(anna, after=ids[1], until=ids[3])
    assert (found["deliveries"], found["eventId"], found["until"], found["done"]) == (2, ids[3], ids[3], True)


def test_a_replay_from_a_time_begins_with_what_came_then(anna: Teller) -> None:
    first, second = (anna.publish(job("create", number))[0] for number in (1, 2))
    anna.put("ops")
    assert replayed(anna, since=_iso(second))["deliveries"] == 1
    assert replayed(anna, since=_iso(first))["deliveries"] == 2
    assert replayed(anna, since=_iso(second + 1))["deliveries"] == 0
    assert anna.settled("ops", 3) == {"sent": 3}


def test_normal_deliveries_go_on_beside_a_replay(anna: Teller) -> None:
    anna.put("ops")
    anna.publish(job("create", 1))
    anna.settled("ops", 1)
    replayed(anna, after=0, replay="again")
    anna.publish(job("create", 2))
    assert anna.settled("ops", 3) == {"sent": 3}
    marks = [str(mail["X-Annals-Delivery"]) for mail in anna.world.mails(anna.address)]
    assert sorted(mark.partition("/")[2] for mark in marks) == ["ops", "ops", "ops/replay-again"]


def test_a_replay_that_is_asked_for_again_tells_nothing_twice(anna: Teller) -> None:
    anna.publish(job("create", 1), job("create", 2))
    anna.put("ops")
    first = replayed(anna, after=0, replay="r-1")
    assert replayed(anna, after=0, replay="r-1", until=first["until"]) == first
    assert anna.settled("ops", 2) == {"sent": 2}
    replayed(anna, after=0, replay="r-2")
    assert anna.settled("ops", 4) == {"sent": 4}


def test_a_replay_tells_only_what_the_observer_is_about(anna: Teller) -> None:
    anna.publish(job("create", 1), job("create", 2, node="n2"), job("finish", 1), job("progress", 2))
    anna.put("ops", events="create,finish", nodes="n1")
    assert replayed(anna, after=0)["deliveries"] == 2
    ben = anna.other("ben")
    ben.put("mine", "app", scope="private")
    assert ben.ask("POST", "mine/replay", {"after": 0}).json()["deliveries"] == 0


NOTHING: dict[str, tuple[bool, Json]] = {
    "after the end": (True, {}),
    "after the end, until before it": (True, {"until": 5}),
    "long after the end": (False, {"after": 2**53 - 1}),
    "until the beginning": (False, {"after": 0, "until": 0}),
    "until before the first": (False, {"after": 0, "until": 7}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_replay_of_nothing_is_done(anna: Teller, name: str) -> None:
    from_end, body = NOTHING[name]
    *_, last = anna.publish(job("create", 1), job("create", 2))
    anna.put("ops")
    found = replayed(anna, **({"after": last} if from_end else {}), **body)
    assert (found["deliveries"], found["done"]) == (0, True)


@pytest.mark.parametrize("body", [{"after": 2**53 - 1}, {"since": "9999-12-31T23:59:59Z"}], ids=str)
def test_a_replay_says_that_it_has_come_to_the_end_and_no_further(anna: Teller, body: Json) -> None:
    *_, last = anna.publish(job("create", 1), job("create", 2))
    anna.put("ops")
    found = replayed(anna, **body)
    assert (found["eventId"], found["until"], found["done"]) == (last, last, True)


def test_a_replay_of_an_empty_log_is_done(anna: Teller) -> None:
    anna.put("ops")
    found = replayed(anna, after=0)
    assert (found["deliveries"], found["eventId"], found["until"], found["done"]) == (0, 0, 0, True)


@pytest.mark.parametrize(
    "body",
    [{}, {"after": 0, "since": "2024-01-01T00:00:00Z"}, {"after": -1}, {"after": "x"}, {"after": 0, "replay": "a/b"},
     {"after": 0, "replay": ""}, {"after": 0, "replay": "x" * 41}, {"since": "yesterday"}, {"after": 0, "from": 1}],
    ids=str,
)  # fmt: skip
def test_a_replay_that_makes_no_sense_is_refused(anna: Teller, body: Json) -> None:
    anna.put("ops")
    assert anna.ask("POST", "ops/replay", body).status_code == 400


def test_a_replay_in_parts_tells_all_of_it_once(here: Site) -> None:
    """Each part takes all of its time with one commit."""
    events = [event for number in range(20) for event in here.publish(*(job("create", number),) * 3)]
    observer = here.put("ops")
    ticks: Iterator[int] = count()
    slow = replace(here.parts.replaying, monotonic=lambda: next(ticks) * PART_S * 2)
    parts, until = [slow.run(here.server, observer, 0, None, "r")], here.parts.log.head(here.server).last
    here.publish(job("create", 99))
    while not parts[-1].is_done:
        parts.append(slow.run(here.server, observer, parts[-1].event_id, until, "r"))
    expected = [Replayed("r", events[place + 2].event_id, until, 3) for place in range(0, 60, 3)]
    assert parts == expected
    told = [(one.delivery.id, one.delivery.replay) for one in here.waiting("ops")]
    assert told == [(f"{event.id}/ops/replay-r", "r") for event in events]


def test_a_part_that_is_repeated_puts_nothing_twice(here: Site) -> None:
    for number in range(5):
        here.publish(job("create", number))
    observer = here.put("ops", config={"to": "a@example.org,b@example.org"})
    once = here.parts.replaying.run(here.server, observer, 0, None, "r")
    assert here.parts.replaying.run(here.server, observer, 0, None, "r") == once
    assert len(here.waiting("ops")) == 10


def _iso(event_id: int) -> str:
    seconds, micros = divmod(event_id, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{micros:06d}Z")
