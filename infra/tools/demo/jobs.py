"""Generates jobs of a dozen types on eight nodes: most succeed, some fail or move to another node, a few time out."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from infra.tools.demo.load_profile import LoadProfile, Month
from infra.tools.demo.publish_request import Lifecycle, PublishRequest, publish_request, random_duration_ms

CLEAN_TIMEOUT_MS = 3_600_000
"""How long a job may send no events before it is cleaned."""

_BUILD = ("build-1", "build-2", "build-3")
_WORK = ("worker-1", "worker-2", "worker-3")
_DATA = ("db-1", "db-2")
NODES: Final = (*_BUILD, *_WORK, *_DATA)


@dataclass(frozen=True, slots=True)
class JobType:
    """A type of job and its statistics."""

    name: str
    profile: LoadProfile
    nodes: tuple[str, ...]
    share: float
    """Relative frequency."""
    median_s: float
    """Median duration."""
    failure_rate: float
    log_message: str
    """The log line of a step."""


JOB_TYPES: Final = (
    JobType("build", "office", _BUILD, 16, 180, 0.07, "Compiled module"),
    JobType("test", "office", _BUILD, 16, 420, 0.11, "Ran test suite"),
    JobType("deploy", "office", _WORK, 8, 150, 0.04, "Updated host"),
    JobType("mailing", "office", _WORK, 7, 90, 0.02, "Sent batch"),
    JobType("import", "always", (*_WORK, *_DATA), 13, 120, 0.03, "Loaded file"),
    JobType("replicate", "always", _DATA, 12, 45, 0.02, "Copied segment"),
    JobType("probe", "always", NODES, 9, 8, 0.01, "Asked endpoint"),
    JobType("backup", "night", _DATA, 5, 900, 0.015, "Saved volume"),
    JobType("index", "night", _WORK, 4, 1500, 0.03, "Merged shard"),
    JobType("train", "night", ("worker-3",), 2, 4800, 0.08, "Finished epoch"),
    JobType("invoice", "morning", _WORK, 5, 240, 0.012, "Rendered page"),
    JobType("digest", "morning", _DATA, 3, 75, 0.008, "Summed up table"),
)
_BY_NAME: Final = {kind.name: kind for kind in JOB_TYPES}
_AUTHORS: Final = ("anna", "bela", "chen", "dora", "scheduler")
_REASONS: Final = (
    "exit status 1",
    "no space left on device",
    "connection refused by the registry",
    "3 of 2,184 checks failed",
    "timed out after 3 tries",
)
_RELEASE: Final = ("build", "build", "test", "test", "deploy")
WARNING, ERROR = 1, 2
_FINISH: Final = '{"type":["job","finish"'


class JobGenerator:
    """Generates the lifecycles of jobs and job sets, with increasing numbers."""

    def __init__(self, rng: random.Random, month: Month, first: int) -> None:
        self.rng = rng
        self.month = month
        self.numbers = count(first)
        self.set_numbers = count(first)

    def single_job(self, kind: JobType, at_ms: int) -> Lifecycle:
        """A job that is not in a set."""
        run = self._new_run(kind, {"branch": "main", "attempt": str(self.rng.randint(1, 3))})
        return [publish_request("job", at_ms, run.event("create")), *self._run(run, at_ms)]

    def release(self, at_ms: int) -> Lifecycle:
        """A job set whose jobs start one after the other and run in parallel."""
        number, author = next(self.set_numbers), self.rng.choice(_AUTHORS)
        runs = [self._new_run(_BY_NAME[name], {"target": f"part-{n}"}) for n, name in enumerate(_RELEASE)]
        jobset = {"id": number, "node": "scheduler-1", "props": {"author": author}}
        plans = [run.plan for run in runs]
        lifecycle = [publish_request("job", at_ms, {"event": "createJobSet", **jobset, "jobs": plans})]
        for run in runs:
            run.jobset = number
            at_ms += random_duration_ms(self.rng, 3, 0.5)
            lifecycle += [publish_request("job", at_ms, run.event("create")), *self._run(run, at_ms)]
        lifecycle.sort(key=lambda request: request.at_ms)
        return self._finish_set(lifecycle, runs, jobset)

    def _new_run(self, kind: JobType, params: dict[str, str]) -> "_Run":
        props = {"author": self.rng.choice(_AUTHORS)}
        return _Run(next(self.numbers), kind, self.rng.choice(kind.nodes), params, props)

    def _run(self, run: "_Run", at_ms: int) -> Iterator[PublishRequest]:
        """The requests after the creation of a job."""
        rng = self.rng
        if len(run.kind.nodes) > 1 and rng.random() < 0.04:
            at_ms += random_duration_ms(rng, 6, 0.6)
            other = rng.choice([node for node in run.kind.nodes if node != run.node])
            yield publish_request("job", at_ms, run.redirect(other))
        at_ms += random_duration_ms(rng, 5 if run.kind.profile != "office" else 9, 0.9)
        yield publish_request("job", at_ms, run.event("progress", state="running"), run.log_line("Started"))
        fails, duration_ms = self._plan_outcome(run, at_ms)
        bursts = rng.randint(1, 3)
        for burst in range(1, bursts + 1):
            at_ms += duration_ms // (bursts + 1)
            yield self._progress(run, at_ms, burst, bursts)
        if rng.random() < 0.006:
            at_ms += CLEAN_TIMEOUT_MS + rng.randint(0, 10_000)
            yield publish_request("job", at_ms, run.event("clean"))
            return
        at_ms += duration_ms // (bursts + 1)
        yield self._end(run, at_ms, fails)

    def _plan_outcome(self, run: "_Run", at_ms: int) -> tuple[bool, int]:
        """Whether the job fails, and its duration.

        One node has three bad days. Tests get slower late in the month.
        """
        day, failure_rate, factor = self.month.day(at_ms), run.kind.failure_rate, 1.0
        if run.node == "worker-2" and 11 <= day <= 13:
            failure_rate, factor = min(failure_rate * 6, 0.6), 1.8
        if run.kind.name == "test" and day >= 20:
            factor = 1.4
        duration_ms = int(random_duration_ms(self.rng, run.kind.median_s, 0.45) * factor)
        is_failure = self.rng.random() < failure_rate
        return is_failure, duration_ms // 2 if is_failure else duration_ms

    def _progress(self, run: "_Run", at_ms: int, burst: int, bursts: int) -> PublishRequest:
        lines = [
            run.log_line(f"{run.kind.log_message} {self.rng.randint(1, 400)}", WARNING if line == 3 else 0)
            for line in range(self.rng.randint(1, 4))
        ]
        return publish_request("job", at_ms, run.event("progress", progress=f"{100 * burst // (bursts + 1)}%"), *lines)

    def _end(self, run: "_Run", at_ms: int, fails: bool) -> PublishRequest:
        if not fails:
            run.result = {"success": "1", "message": f"{run.kind.name} done"}
            return publish_request("job", at_ms, run.event("finish", **run.result))
        run.result = {"success": "0", "message": f"{run.kind.name} failed: {self.rng.choice(_REASONS)}"}
        line = run.log_line(run.result["message"], ERROR)
        return publish_request("job", at_ms, line, run.event("finish", **run.result))

    def _finish_set(self, lifecycle: Lifecycle, runs: list["_Run"], jobset: dict[str, Any]) -> Lifecycle:
        """Add the set's progress and its end: with the last finish, or a timeout after a job went silent."""
        finishes = [index for index, request in enumerate(lifecycle) if request.texts[-1].startswith(_FINISH)]
        for done, index in enumerate(finishes[:-1], start=1):
            at_ms = lifecycle[index].at_ms
            event = {"event": "progressJobSet", **jobset, "state": "running", "progress": f"{done}/{len(runs)}"}
            lifecycle[index] = _merge(lifecycle[index], publish_request("job", at_ms, event))
        is_finished = len(finishes) == len(runs)
        at_ms = lifecycle[-1].at_ms + (0 if is_finished else CLEAN_TIMEOUT_MS)
        name = "finishJobSet" if is_finished else "cleanJobSet"
        end = publish_request("job", at_ms, {"event": name, **jobset, "jobs": [run.outcome for run in runs]})
        return [*lifecycle[:-1], _merge(lifecycle[-1], end)] if is_finished else [*lifecycle, end]


@dataclass
class _Run:
    """The state of a job while its events are generated."""

    number: int
    kind: JobType
    node: str
    params: dict[str, str]
    props: dict[str, str]
    jobset: int | None = None
    result: dict[str, str] = field(default_factory=dict)

    @property
    def plan(self) -> dict[str, Any]:
        """The job in its set's `createJobSet`."""
        return {"node": self.node, "type": self.kind.name, "params": self.params, "props": self.props}

    @property
    def outcome(self) -> dict[str, Any]:
        """The job in its set's last event."""
        return {**self.plan, "id": self.number, "state": "finished" if self.result else "cleaned", **self.result}

    def event(self, name: str, **fields: Any) -> dict[str, Any]:
        return {"event": name, "id": self.number, **self._set, **self.plan, **fields}

    def log_line(self, message: str, level: int = 0) -> dict[str, Any]:
        """A progress event with a log line."""
        return self.event("progress", log={"message": message, "level": level, "tag": self.kind.name})

    def redirect(self, to: str) -> dict[str, Any]:
        """A redirect event. Changes the job's node."""
        node, self.node = self.node, to
        return {
            "event": "redirect",
            "node": node,
            "id": self.number,
            **self._set,
            "redirect": to,
        }

    @property
    def _set(self) -> dict[str, int]:
        return {} if self.jobset is None else {"jobset": self.jobset}


def _merge(first: PublishRequest, second: PublishRequest) -> PublishRequest:
    return first._replace(texts=(*first.texts, *second.texts))
