"""Processes are killed repeatedly while events flow: nothing is lost, and few deliveries are repeated."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from tests.notifications import faults
from tests.notifications.fake_channels import FakeChannels, eventually, run_fake_channels
from tests.notifications.faults import CONSUMER_WORKER, DELIVERY_WORKER, Killer, Publisher
from tests.notifications.observer_client import ObserverClient, create_observer_client, server_environment
from tests.serving import run_server

EVENTS = 1_000
KILLS = 8
OBSERVERS = ("mailed", "chat", "inbox")


@pytest.fixture(name="own_channels")
def separate_channels(authority: trustme.CA) -> Iterator[FakeChannels]:
    with run_fake_channels(authority) as channels:
        yield channels


def observed(anna: ObserverClient) -> ObserverClient:
    """Configure one observer per channel."""
    for name, channel in zip(OBSERVERS, ("mail", "slack", "app"), strict=True):
        anna.put(name, channel, types=["job/*"])
    return anna


def settled(anna: ObserverClient) -> dict[str, dict[str, int]]:
    """Wait until all deliveries are settled, and return their counts."""
    by_observer = eventually(
        lambda: {name: anna.deliveries(name) for name in OBSERVERS},
        lambda by_observer: all(
            not counts["waiting"] and sum(counts.values()) >= EVENTS for counts in by_observer.values()
        ),
        timeout_s=300,
    )
    return {name: {state: n for state, n in counts.items() if n} for name, counts in by_observer.items()}


def check(anna: ObserverClient, kills: int) -> dict[str, int]:
    """Assert that every event arrived, in order for each job. Returns the numbers of repeated messages."""
    counts = settled(anna)
    arrived = {
        "mailed": faults.numbers_mailed(anna.channels, anna.address),
        "chat": faults.numbers_posted(anna.channels, anna.slack_channel),
        "inbox": [faults.event_number(message["body"]) for message in _inbox(anna)],
    }
    for name, numbers in arrived.items():
        assert sum(counts[name].values()) == EVENTS
        assert set(counts[name]) <= {"sent", "parked"}
        assert counts[name]["sent"] <= len(set(numbers)) <= EVENTS, f"{name}: some are missing"
        if "parked" not in counts[name]:
            assert set(numbers) == set(range(EVENTS))
        assert all(of_job == sorted(of_job) for of_job in faults.by_key(numbers).values()), f"{name}: out of order"
    twice = {name: len(numbers) - len(set(numbers)) for name, numbers in arrived.items()}
    assert twice["inbox"] == 0
    assert all(number <= kills for number in twice.values()), twice
    assert max(Counter(arrived["mailed"] + arrived["chat"]).values()) <= 2 + kills
    return twice


def test_delivery_worker_killed_repeatedly_loses_nothing(
    tmp_path: Path, own_channels: FakeChannels, authority: trustme.CA
) -> None:
    killer, publisher = Killer(random.Random(1)), Publisher(EVENTS, 20)
    with run_server(tmp_path / "data", **server_environment(own_channels, tmp_path, authority)) as server:
        anna = observed(create_observer_client(server, own_channels))
        publisher.start(anna.member)
        try:
            for _ in range(KILLS):
                killer.kill_worker(server, DELIVERY_WORKER, lambda: _done(own_channels))
            eventually(lambda: publisher.is_done)
        finally:
            publisher.stop()
        twice = check(anna, killer.kills)
    print(f"{killer.kills} kills, repeated: {twice}")


def test_all_processes_killed_repeatedly_lose_nothing(
    tmp_path: Path, own_channels: FakeChannels, authority: trustme.CA
) -> None:
    killer, publisher = Killer(random.Random(2)), Publisher(EVENTS, 10, pause_s=0.05)
    environment = server_environment(own_channels, tmp_path, authority)
    with ExitStack() as stack:
        stack.callback(publisher.stop)
        server = stack.enter_context(run_server(tmp_path / "data", **environment))
        anna = observed(create_observer_client(server, own_channels))
        publisher.start(anna.member)
        for number in range(2):
            killer.kill_worker(server, CONSUMER_WORKER, lambda: _done(own_channels))
            killer.kill_worker(server, DELIVERY_WORKER, lambda: _done(own_channels))
            killer.kill_server(server, with_workers=number % 2 == 0)
            server = stack.enter_context(run_server(tmp_path / "data", **environment))
            publisher.url = server.url
        eventually(lambda: publisher.is_done)
        anna = create_observer_client(server, own_channels, anna.name)
        twice = check(anna, killer.kills)
    print(f"{killer.kills} kills, repeated: {twice}")


def _done(channels: FakeChannels) -> int:
    with channels.slack.lock:
        return len(channels.mailbox.mails) + sum(map(len, channels.slack.posts.values()))


def _inbox(anna: ObserverClient) -> list[dict[str, str]]:
    messages = anna.inbox(after=0)
    while more := anna.inbox(after=messages[-1]["eventId"]) if messages else []:
        messages += more
    return messages
