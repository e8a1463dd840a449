"""Sample events and commits for the tests of the projector."""

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from chalicelib.domain.events.body import join_body
from chalicelib.domain.events.event import Event, NewEvent, encode
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.services.ports import Log
from tests.services.fakes import NOW

Text = tuple[EventType, str | None, Any]
"""Type, key and payload data of an event."""

ORDER, CHAIN, JOB, TASK, FILE = "OrderEvent", "JobChainEvent", "JobEvent", "TaskEvent", "FileBasedEvent"
EVENTS: Sequence[Text] = [
    (("a", "b"), "/1", None),
    (("a", "c", "d"), "/1", 7),
    (("a", "c", "d"), "/ß/日本", None),
    (("a",), None, None),
    ((), None, None),
    (("unknown", "scheduler"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderAdded"), "/chain,1", {"nodeId": "100"}),
    (("scheduler", ORDER, "OrderStarted"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderStepStarted"), "/chain,1", {"nodeId": "200", "taskId": "3"}),
    (("scheduler", ORDER, "OrderStepStarted"), "/chain,2", {"nodeId": "200", "taskId": "4"}),
    (("scheduler", ORDER, "OrderSuspended"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderRemoved"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderStepStarted"), "/chain,1", {"this": "does not follow the vocabulary"}),
    (("scheduler", CHAIN, "JobChainStateChanged"), "/chain", {"state": "running"}),
    (("scheduler", JOB, "JobStateChanged"), "/job", {"state": "pending"}),
    (("scheduler", TASK, "TaskStarted"), "/job:3", {}),
    (("scheduler", TASK, "TaskEnded"), "/job:3", {"returnCode": 0}),
    (("scheduler", "CustomEvent", "VariablesCustomEvent"), "custom", {"variables": {"a": "b"}}),
    (("scheduler", "Logged"), None, {"level": "info", "message": "hello"}),
    (("scheduler", FILE, "FileBasedAdded"), "Order:/chain,1", {}),
    (("scheduler", FILE, "FileBasedActivated"), "JobChain:/chain", {}),
    (("scheduler", FILE, "FileBasedRemoved"), "Order:/chain,1", {}),
    (("scheduler", "SchedulerEvent", "SchedulerStateChanged"), None, {"state": "running"}),
    (("scheduler", "UnknownEvent"), "/chain,1", {}),
]
events = st.sampled_from(EVENTS)
gaps = st.sampled_from([1, 1_000_000, 20_000_000, 300_000_000])
"""Microseconds between commits."""
batches = st.lists(st.tuples(gaps, st.lists(events, min_size=1, max_size=4)), max_size=14)


def incompressible_text(seed: int) -> str:
    """Text of 200 characters and 600 bytes that hardly compresses."""
    return "".join(map(chr, random.Random(seed).choices(range(0x4E00, 0x9F00), k=200)))


NODES: list[Any] = [None, True, 1, 1.5, "1", [], {}]
ODD_EVENTS: dict[str, list[Text]] = {
    "a file without a path": [(("scheduler", FILE, "FileBasedAdded"), "Order:", {})],
    "a file without a kind": [(("scheduler", FILE, "FileBasedAdded"), "/a", {})],
    "a file without a kind and path": [(("scheduler", FILE, "FileBasedAdded"), ":", {})],
    "a very large state": [
        (
            ("scheduler", CHAIN, "JobChainNodeActionChanged"),
            "/chain",
            {"nodeId": incompressible_text(n), "action": incompressible_text(n + 10_000)},
        )
        for n in range(500)
    ],
    "nodes that are not text": [
        (("scheduler", CHAIN, "JobChainNodeActionChanged"), "/chain", {"nodeId": node, "action": "stop"})
        for node in NODES
    ],
    "the longest key": [(("scheduler", CHAIN, "JobChainStateChanged"), "/" + "x" * 899, {})],
    "the longest type": [(("x" * 900,), None, None), (("scheduler", "y" * 890), "/1", None)],
    "many long types": [(("x" * 880 + f"{n:03d}",), None, None) for n in range(120)],
}
"""Valid events that a publisher should not send."""


def sample_commits(commits: int) -> list[tuple[int, Sequence[Text]]]:
    """Commits with events of all kinds, some of them minutes apart."""
    return [
        (70_000_000 if n % 5 == 4 else 1_000, [EVENTS[(3 * n + i * i) % len(EVENTS)] for i in range(1 + n % 3)])
        for n in range(commits)
    ]


def archiving_commits(commits: int) -> list[tuple[int, Sequence[Text]]]:
    """Commits that mostly contain events of one object, so that its sessions are archived."""
    frequent: Text = (("a", "b"), "/frequent", None)
    order: Text = (("scheduler", ORDER, "OrderStarted"), "/c,1", {})
    return [
        (1_000, [order, frequent] if n % 3 else [frequent, frequent] if n % 50 else [order]) for n in range(commits)
    ]


def fill(log: Log, server: int, commits: Sequence[tuple[int, Sequence[Text]]]) -> list[Commit]:
    """Append commits with the given gaps and events."""
    new_commits = chained_commits(server, log.head(server), commits)
    if new_commits:
        log.append(new_commits)
    return new_commits


def chained_commits(server: int, head: Head, commits: Sequence[tuple[int, Sequence[Text]]]) -> list[Commit]:
    result: list[Commit] = []
    for gap, texts in commits:
        at = max(head.last_event_id, NOW) + gap
        session, body = head.session + 1, join_body(map(text, texts))
        commit = Commit(server, session, at, len(texts), head.last_event_id, "r", body, head.position)
        result.append(commit)
        head = commit.head
    return result


def text(event: Text) -> str:
    """The stored JSON of an event."""
    event_type, key, data = event
    payload = None if data is None else {"type": "json", "data": data}
    return encode(NewEvent.model_validate({"type": event_type, "key": key, "payload": payload})).decode()


def events_of(commits: Sequence[Commit]) -> list[Event]:
    return [event for commit in commits for event in commit.events]
