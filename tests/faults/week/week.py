"""Runs the scenario of a week: publishes, configures, and lets the workers work until they are killed."""

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chalicelib.domain.expectations.expectation import Expectation
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.domain.vocabularies.job.events import new_event
from chalicelib.services.consumers.healing import reset_views
from tests.faults.week.kills import Kills
from tests.faults.week.scenario import MINUTE_MS, Action, Scenario
from tests.faults.week.workers import ConsumerProcess, DeliveryProcess, DueProcess, Process, open_components
from tests.services.fakes import World

ORGANIZATION = "here"
SECOND_MS = 1000
PUBLISHED = {"publish", "put expectation", "silence", "end silence", "acknowledge"}
"""Actions that need no workers before or after them."""
TWO_WORKERS = (2.0, 4.5)
"""The days during which a second consumer worker runs."""
DUE_WORKER = (1.0, 6.0)
"""The days during which another process does the time-driven work, too."""
MAX_EARLY_MS = 20 * MINUTE_MS
"""Events that are published while a worker writes come before their planned time."""


@dataclass
class Week:
    """A server, its workers, and a clock that they share."""

    folder: Path
    scenario: Scenario
    seed: int
    errors: "Counter[str]" = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self.world = World()
        self.world.now_ms = self.scenario.start_ms
        self.kills = Kills(random.Random(self.seed), self._between)
        self._open_server()
        self.server = self.components.log.organizations.create(ORGANIZATION)[0].server
        self._consumers = [self._process(ConsumerProcess) for _ in range(2)]
        self._due = self._process(DueProcess)
        self._delivery = self._process(DeliveryProcess)
        self._silences: dict[str, int] = {}
        self._next_poll_ms = self.scenario.start_ms
        self._is_between = False
        self._actions = deque(self.scenario.actions)
        self.polls = 0

    def publish_only(self) -> None:
        """The events and the first configurations of the week. No worker runs."""
        for action in self.scenario.actions:
            if action.kind in PUBLISHED or action.at_ms == self.scenario.start_ms:
                self._advance_to(action.at_ms)
                self._perform(action)
        self._advance_to(self.scenario.end_ms)

    def run(self) -> None:
        """The whole week. Ends when the workers have nothing left to do."""
        while self._actions:
            # Between the writes of the workers, other events may be published. Then this one is no longer the first.
            if self._work_until(self._actions[0].at_ms):
                continue
            action = self._actions.popleft()
            self._advance_to(action.at_ms)
            self._perform(action)
        self._work_until(self.scenario.end_ms)
        self._advance_to(self.scenario.end_ms)
        self.settle()

    def settle(self) -> None:
        """Let the workers work until nothing is left to do. They may be killed meanwhile."""
        before = -1
        while before != (before := self.kills.writes.total()):
            self._poll(*self._consumers, self._delivery)

    def close(self) -> None:
        for process in (*self._consumers, self._due, self._delivery):
            process.stop()
        self.components.close()

    def _open_server(self) -> None:
        self.components = open_components(self.folder, self.world)

    def _process(self, kind: type[Process]) -> Process:
        return kind(self.folder, self.world, self.kills, self.errors)

    def _advance_to(self, at_ms: int) -> None:
        self.world.now_ms = max(self.world.now_ms, at_ms)

    def _work_until(self, at_ms: int) -> bool:
        """Returns whether there was work."""
        has_worked = False
        while self._next_poll_ms < at_ms:
            self._advance_to(self._next_poll_ms)
            self._poll(*self._active())
            self._next_poll_ms = self.world.now_ms + self._interval_ms()
            has_worked = True
        return has_worked

    def _interval_ms(self) -> int:
        """Usually some minutes. Sometimes the workers are down for hours."""
        hours = self._rng.choice([0.02] * 8 + [0.3] * 40 + [0.6] * 20 + [1.5] * 3 + [4])
        return int(hours * 60 * MINUTE_MS * self._rng.uniform(0.3, 1.5))

    def _active(self) -> list[Process]:
        """The processes that work at this time, in any order."""
        processes: list[Process] = [*self._consumers] if self._is_in(TWO_WORKERS) else [self._consumers[0]]
        if self._is_in(DUE_WORKER):
            processes.append(self._due)
        return [*self._rng.sample(processes, len(processes)), self._delivery]

    def _is_in(self, days: tuple[float, float]) -> bool:
        return days[0] <= (self.world.now_ms - self.scenario.start_ms) / 86_400_000 < days[1]

    def _poll(self, *processes: Process) -> None:
        for process in processes:
            process.run()
            self.polls += 1

    def _between(self, kind: str) -> None:
        """What others do while a process writes: publish, or work, too. They are not interrupted themselves."""
        is_alarm = kind.startswith("log.append") and kind != "log.append message"
        if self._is_between or self._rng.random() > (0.3 if is_alarm else 0.03):
            return
        self._is_between = True
        try:
            following = self._actions[0] if self._actions else None
            if self._rng.random() < 0.3:
                if following and following.kind == "publish" and following.at_ms < self.world.now_ms + MAX_EARLY_MS:
                    self._perform(self._actions.popleft())
            else:
                self._poll(self._rng.choice(self._active()))
        finally:
            self._is_between = False

    def _perform(self, action: Action) -> None:
        match action.kind:
            case "publish":
                self.components.jobs.publisher.publish(self.server, list(map(new_event, action.fields)))
            case "put expectation":
                expectation = Expectation(**action.fields)
                self.components.expectations.registry.put(self.server, action.name, expectation)
            case "delete expectation":
                self._settle_then_wait()
                self.components.expectations.registry.delete(self.server, action.name)
            case "put observer" | "delete observer" | "snooze":
                self._settle_then_wait()
                self._change_observer(action)
                self.world.now_ms += SECOND_MS
            case "silence" | "end silence" | "acknowledge":
                self._mute(action)
            case "lose views":
                self._lose_views()
            case "reset views":
                self._reset_views()

    def _settle_then_wait(self) -> None:
        """Observers decide with the configuration at the time of their work, not at the time of the event."""
        if self.world.now_ms > self.scenario.start_ms + SECOND_MS:
            self.settle()
            self.world.now_ms += SECOND_MS

    def _change_observer(self, action: Action) -> None:
        notifications, now_us = self.components.notifications, self.world.now_ms * 1000
        if action.kind == "delete observer":
            notifications.observers.delete(self.server, action.name)
            return
        if action.kind == "snooze":
            notifications.observers.snooze(self.server, action.name, max(action.fields * 1000, now_us))
        else:
            notifications.observers.put(self.server, action.name, _configuration(action.fields))
        notifications.calm.reschedule(self.server, action.name, now_us)

    def _mute(self, action: Action) -> None:
        alerts, fields = self.components.notifications.alerts, action.fields or {}
        if action.kind == "end silence":
            if (silence := self._silences.pop(action.name, None)) is not None:
                alerts.end_silence(self.server, silence, "anna")
            return
        until_us: Any = None if fields["until"] is None else fields["until"] * 1000
        if action.kind == "acknowledge":
            alerts.acknowledge(self.server, action.name, until_us, "seen", "anna")
        else:
            pattern = tuple(fields["pattern"]) if "pattern" in fields else None
            mute = alerts.silence(self.server, fields.get("type"), pattern, until_us, "maintenance", "anna")
            self._silences[action.name] = mute.id

    def _lose_views(self) -> None:
        """All processes end, and start with an empty file of views."""
        self.close()
        for file in self.folder.glob("views.sqlite*"):
            file.unlink()
        self._open_server()

    def _reset_views(self) -> None:
        """A damaged record was found: the views are empty from now on. The processes continue."""
        for server in (configuration_log(self.server), self.server):
            reset_views(server, self.components.stores.views)


def _configuration(fields: dict[str, Any]) -> Configuration:
    more = {name: value for name, value in fields.items() if name != "to"}
    return Configuration(channel="app", config={"to": fields.get("to", "anna")}, **more)
