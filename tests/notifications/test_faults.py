"""Processes killed again and again while events flow: nothing is lost, and little comes twice."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from tests.notifications import faults
from tests.notifications.faults import COURIER, PUMP, Killer, Publisher
from tests.notifications.narration import Teller, settings, teller
from tests.notifications.outside import Outside, eventually, outside
from tests.serving import serving

EVENTS = 1_000
KILLS = 8
LANES = ("mailed", "chat", "told")


@pytest.fixture(name="own_world")
def a_world_of_its_own(authority: trustme.CA) -> Iterator[Outside]:
    with outside(authority) as found:
        yield found


def observed(anna: Teller) -> Teller:
    """With one observer for each channel."""
    for name, channel in zip(LANES, ("mail", "slack", "app"), strict=True):
        anna.put(name, channel)
    return anna


def settled(anna: Teller) -> dict[str, dict[str, int]]:
    """What became of all deliveries, in the end."""
    found = eventually(
        lambda: {name: anna.deliveries(name) for name in LANES},
        lambda them: all(not one["waiting"] and sum(one.values()) >= EVENTS for one in them.values()),
        longest_s=300,
    )
    return {name: {state: n for state, n in counts.items() if n} for name, counts in found.items()}


def check(anna: Teller, kills: int) -> dict[str, int]:
    """All of it arrived, in order for each job; how much of it twice."""
    counts = settled(anna)
    arrived = {
        "mailed": faults.numbers_mailed(anna.world, anna.address),
        "chat": faults.numbers_posted(anna.world, anna.channel),
        "told": [faults.number_of(one["body"]) for one in _inbox(anna)],
    }
    for name, numbers in arrived.items():
        assert sum(counts[name].values()) == EVENTS
        assert set(counts[name]) <= {"sent", "parked"}
        assert counts[name]["sent"] <= len(set(numbers)) <= EVENTS, f"{name}: some were lost"
        if "parked" not in counts[name]:
            assert set(numbers) == set(range(EVENTS))
        assert all(of_job == sorted(of_job) for of_job in faults.by_key(numbers).values()), f"{name}: not in order"
    twice = {name: len(numbers) - len(set(numbers)) for name, numbers in arrived.items()}
    assert twice["told"] == 0
    assert all(number <= kills for number in twice.values()), twice
    assert max(Counter(arrived["mailed"] + arrived["chat"]).values()) <= 2 + kills
    return twice


def test_a_courier_killed_again_and_again_loses_nothing(
    tmp_path: Path, own_world: Outside, authority: trustme.CA
) -> None:
    killer, publisher = Killer(random.Random(1)), Publisher(EVENTS, 20)
    with serving(tmp_path / "data", **settings(own_world, tmp_path, authority)) as server:
        anna = observed(teller(server, own_world))
        publisher.start(anna.member)
        try:
            for _ in range(KILLS):
                killer.companion(server, COURIER, lambda: _done(own_world))
            eventually(lambda: publisher.is_done)
        finally:
            publisher.stop()
        twice = check(anna, killer.kills)
    print(f"{killer.kills} kills, came twice: {twice}")


def test_pump_and_server_killed_in_between_lose_nothing(
    tmp_path: Path, own_world: Outside, authority: trustme.CA
) -> None:
    killer, publisher = Killer(random.Random(2)), Publisher(EVENTS, 10, pause_s=0.05)
    environment = settings(own_world, tmp_path, authority)
    with ExitStack() as stack:
        stack.callback(publisher.stop)
        server = stack.enter_context(serving(tmp_path / "data", **environment))
        anna = observed(teller(server, own_world))
        publisher.start(anna.member)
        for number in range(2):
            killer.companion(server, PUMP, lambda: _done(own_world))
            killer.companion(server, COURIER, lambda: _done(own_world))
            killer.server(server, with_companions=number % 2 == 0)
            server = stack.enter_context(serving(tmp_path / "data", **environment))
            publisher.url = server.url
        eventually(lambda: publisher.is_done)
        anna = teller(server, own_world, anna.name)
        twice = check(anna, killer.kills)
    print(f"{killer.kills} kills, came twice: {twice}")


def _done(world: Outside) -> int:
    with world.slack.lock:
        return len(world.box.mails) + sum(map(len, world.slack.posts.values()))


def _inbox(anna: Teller) -> list[dict[str, str]]:
    found = anna.inbox(after=0)
    while more := anna.inbox(after=found[-1]["eventId"]) if found else []:
        found += more
    return found
