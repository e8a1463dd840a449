"""A replay decides the same as the matcher and the clock did when the events happened."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.services.notifications import replay as replaying
from chalicelib.services.notifications.replay import ReplayProgress
from tests.notifications.calm_site import HOUR_S, CalmSite, Reported, open_calm_site

RULES: list[dict[str, Any]] = [
    {},
    {"when": "change"},
    {"when": "failures(2)", "throttle": "30m"},
    {"when": "recovered"},
    {"digest": "10m", "group_by": ["type", "node"]},
    {"digest": "00:00, 06:00", "time_zone": "Europe/Berlin"},
    {"throttle": "2h", "quiet": "23:00-07:00"},
    {"when": "change", "digest": "1h", "quiet": "23:00-07:00", "filter": 'event.node != "n2"'},
]
STEPS = (
    "fail",
    "fail",
    "fail",
    "succeed",
    "deploy",
    "other node",
    "minutes",
    "hours",
    "silence",
    "acknowledge",
    "snooze",
)


@pytest.fixture(name="calm")
def a_calm_site(tmp_path: Path) -> Iterator[CalmSite]:
    with open_calm_site(tmp_path / "site") as calm:
        yield calm


def take(calm: CalmSite, step: str) -> None:
    match step:
        case "fail":
            calm.fail()
        case "succeed":
            calm.succeed()
        case "deploy":
            calm.fail("deploy")
        case "other node":
            calm.fail(node="n2")
        case "minutes":
            calm.wait(17 * 60)
        case "hours":
            calm.wait(3 * HOUR_S)
        case "silence":
            calm.silence("deploy")
        case "acknowledge":
            calm.acknowledge("backup")
        case "snooze":
            calm.snooze(2 * HOUR_S)
            calm.world.now_ms += 1


def replay(calm: CalmSite, after: int = 0, name: str = "ops") -> list[ReplayProgress]:
    """All parts of a replay."""
    components, parts = calm.site.components, list[ReplayProgress]()
    observer = components.notifications.observers.get(calm.server, name)
    while not parts or not parts[-1].is_done:
        start, until = (parts[-1].event_id, parts[-1].until) if parts else (after, None)
        parts.append(components.notifications.replayer.run(calm.server, observer, start, until, "again"))
    return parts


def split(calm: CalmSite) -> tuple[list[tuple[str, Reported]], list[tuple[str, Reported]]]:
    """The live deliveries and the replayed ones, without the mark of the replay in their ids."""
    both: tuple[list[tuple[str, Reported]], list[tuple[str, Reported]]] = ([], [])
    for one in calm.reported():
        is_replayed = "/replay-again" in one.id
        neutral = one._replace(id=one.id.replace("/replay-again", ""))
        both[is_replayed].append((neutral.id, neutral))
    return sorted(both[0]), sorted(both[1])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(RULES), st.lists(st.sampled_from(STEPS), min_size=1, max_size=25))
def test_replay_equals_live_decisions(rule: dict[str, Any], steps: list[str]) -> None:
    with TemporaryDirectory() as folder, open_calm_site(Path(folder) / "site") as calm:
        calm.put(**rule)
        for step in steps:
            take(calm, step)
        calm.wait(48 * HOUR_S)
        if any(step in ("fail", "succeed", "deploy", "other node") for step in steps):
            replay(calm)
        live, replayed = split(calm)
        assert replayed == live


def test_replay_in_small_parts_decides_the_same(calm: CalmSite, monkeypatch: pytest.MonkeyPatch) -> None:
    calm.put(digest="10m", group_by=["type", "node"])
    for step in ("fail", "other node", "fail", "hours", "deploy", "fail", "hours") * 4:
        take(calm, step)
    monkeypatch.setattr(replaying, "MAX_PART_DELIVERIES", 2)
    parts = replay(calm)
    live, replayed = split(calm)
    assert (replayed, len(parts) >= 5) == (live, True)
    progress = calm.site.components.stores.progress
    assert list(progress.range(f"{calm.server}/calm-replay/ops", "", "\U0010ffff")) == []


def test_replay_knows_what_happened_before_its_start(calm: CalmSite) -> None:
    """The job fails before the start, so its next failure changes nothing."""
    calm.put(when="change")
    first = calm.fail()
    calm.fail()
    recovered = calm.succeed()
    calm.work()
    replay(calm, after=first.event_id)
    live, replayed = split(calm)
    assert (replayed, recovered.event_id) == (live[1:], replayed[0][1].first)


def test_repeated_part_of_replay_adds_nothing(calm: CalmSite) -> None:
    calm.put(digest="10m")
    calm.fail()
    calm.wait(HOUR_S)
    for _ in range(2):
        replay(calm)
    live, replayed = split(calm)
    assert replayed == live


def test_dry_run_counts_messages_not_events(calm: CalmSite) -> None:
    calm.put(digest="10m")
    for _ in range(10):
        calm.fail()
    components = calm.site.components
    observer = components.notifications.observers.get(calm.server, "ops")
    progress = components.notifications.replayer.run(calm.server, observer, 0, None, "again", is_dry_run=True)
    assert (progress.deliveries, progress.is_done, calm.reported()) == (1, True, [])
