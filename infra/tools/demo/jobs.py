"""Jobs of a dozen types on eight nodes: most succeed, some fail, a few go to another node, and fewer fall silent."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from infra.tools.demo.narration import Story, Told, some_ms, told
from infra.tools.demo.rhythm import Month, Name

CLEANED_MS = 3_600_000
"""So long a job may be silent."""

_BUILD = ("build-1", "build-2", "build-3")
_WORK = ("worker-1", "worker-2", "worker-3")
_DATA = ("db-1", "db-2")
NODES: Final = (*_BUILD, *_WORK, *_DATA)


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of job."""

    name: str
    rhythm: Name
    nodes: tuple[str, ...]
    share: float
    """How many of all jobs are of this type."""
    seconds: float
    """What half of them take at most."""
    fails: float
    step: str
    """What it logs that it does."""


KINDS: Final = (
    Kind("build", "office", _BUILD, 16, 180, 0.07, "Compiled module"),
    Kind("test", "office", _BUILD, 16, 420, 0.11, "Ran test suite"),
    Kind("deploy", "office", _WORK, 8, 150, 0.04, "Updated host"),
    Kind("mailing", "office", _WORK, 7, 90, 0.02, "Sent batch"),
    Kind("import", "always", (*_WORK, *_DATA), 13, 120, 0.03, "Loaded file"),
    Kind("replicate", "always", _DATA, 12, 45, 0.02, "Copied segment"),
    Kind("probe", "always", NODES, 9, 8, 0.01, "Asked endpoint"),
    Kind("backup", "night", _DATA, 5, 900, 0.015, "Saved volume"),
    Kind("index", "night", _WORK, 4, 1500, 0.03, "Merged shard"),
    Kind("train", "night", ("worker-3",), 2, 4800, 0.08, "Finished epoch"),
    Kind("invoice", "morning", _WORK, 5, 240, 0.012, "Rendered page"),
    Kind("digest", "morning", _DATA, 3, 75, 0.008, "Summed up table"),
)
_BY_NAME: Final = {kind.name: kind for kind in KINDS}
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


class Jobs:
    """Makes the stories of jobs and sets of them; their numbers rise."""

    def __init__(self, chance: random.Random, month: Month, first: int) -> None:
        self.chance = chance
        self.month = month
        self.numbers = count(first)
        self.set_numbers = count(first)

    def job(self, kind: Kind, at_ms: int) -> Story:
        """A job that nobody else waits for."""
        run = self._new_run(kind, {"branch": "main", "attempt": str(self.chance.randint(1, 3))})
        return [told("job", at_ms, run.event("create")), *self._goes_on(run, at_ms)]

    def jobset(self, at_ms: int) -> Story:
        """A release: its jobs begin one after the other and run beside each other."""
        number, author = next(self.set_numbers), self.chance.choice(_AUTHORS)
        runs = [self._new_run(_BY_NAME[name], {"target": f"part-{n}"}) for n, name in enumerate(_RELEASE)]
        of_set = {"id": number, "node": "scheduler-1", "props": {"author": author}}
        plans = [run.plan for run in runs]
        story = [told("job", at_ms, {"event": "createJobSet", **of_set, "jobs": plans})]
        for run in runs:
            run.jobset = number
            at_ms += some_ms(self.chance, 3, 0.5)
            story += [told("job", at_ms, run.event("create")), *self._goes_on(run, at_ms)]
        story.sort(key=lambda one: one.at_ms)
        return self._ended_set(story, runs, of_set)

    def _new_run(self, kind: Kind, params: dict[str, str]) -> "_Run":
        props = {"author": self.chance.choice(_AUTHORS)}
        return _Run(next(self.numbers), kind, self.chance.choice(kind.nodes), params, props)

    def _goes_on(self, run: "_Run", at_ms: int) -> Iterator[Told]:
        """What happens to a job that was created."""
        chance = self.chance
        if len(run.kind.nodes) > 1 and chance.random() < 0.04:
            at_ms += some_ms(chance, 6, 0.6)
            other = chance.choice([node for node in run.kind.nodes if node != run.node])
            yield told("job", at_ms, run.redirect(other))
        at_ms += some_ms(chance, 5 if run.kind.rhythm != "office" else 9, 0.9)
        yield told("job", at_ms, run.event("progress", state="running"), run.logged("Started"))
        fails, takes_ms = self._fate(run, at_ms)
        bursts = chance.randint(1, 3)
        for burst in range(1, bursts + 1):
            at_ms += takes_ms // (bursts + 1)
            yield self._burst(run, at_ms, burst, bursts)
        if chance.random() < 0.006:
            at_ms += CLEANED_MS + chance.randint(0, 10_000)
            yield told("job", at_ms, run.event("clean"))
            return
        at_ms += takes_ms // (bursts + 1)
        yield self._end(run, at_ms, fails)

    def _fate(self, run: "_Run", at_ms: int) -> tuple[bool, int]:
        """Whether the job fails, and how long it takes. A node has three bad days; tests get slower in the end."""
        day, fails, factor = self.month.day(at_ms), run.kind.fails, 1.0
        if run.node == "worker-2" and 11 <= day <= 13:
            fails, factor = min(fails * 6, 0.6), 1.8
        if run.kind.name == "test" and day >= 20:
            factor = 1.4
        takes_ms = int(some_ms(self.chance, run.kind.seconds, 0.45) * factor)
        is_failure = self.chance.random() < fails
        return is_failure, takes_ms // 2 if is_failure else takes_ms

    def _burst(self, run: "_Run", at_ms: int, burst: int, bursts: int) -> Told:
        lines = [
            run.logged(f"{run.kind.step} {self.chance.randint(1, 400)}", WARNING if one == 3 else 0)
            for one in range(self.chance.randint(1, 4))
        ]
        return told("job", at_ms, run.event("progress", progress=f"{100 * burst // (bursts + 1)}%"), *lines)

    def _end(self, run: "_Run", at_ms: int, fails: bool) -> Told:
        if not fails:
            run.ended = {"success": "1", "message": f"{run.kind.name} done"}
            return told("job", at_ms, run.event("finish", **run.ended))
        run.ended = {"success": "0", "message": f"{run.kind.name} failed: {self.chance.choice(_REASONS)}"}
        log = run.logged(run.ended["message"], ERROR)
        return told("job", at_ms, log, run.event("finish", **run.ended))

    def _ended_set(self, story: Story, runs: list["_Run"], of_set: dict[str, Any]) -> Story:
        """The set's own progress and end: with the last finish, or long after a job fell silent."""
        finishes = [place for place, one in enumerate(story) if one.texts[-1].startswith(_FINISH)]
        for done, place in enumerate(finishes[:-1], start=1):
            at_ms = story[place].at_ms
            event = {"event": "progressJobSet", **of_set, "state": "running", "progress": f"{done}/{len(runs)}"}
            story[place] = _with(story[place], told("job", at_ms, event))
        is_over = len(finishes) == len(runs)
        at_ms = story[-1].at_ms + (0 if is_over else CLEANED_MS)
        name = "finishJobSet" if is_over else "cleanJobSet"
        end = told("job", at_ms, {"event": name, **of_set, "jobs": [run.outcome for run in runs]})
        return [*story[:-1], _with(story[-1], end)] if is_over else [*story, end]


@dataclass
class _Run:
    """A job while it is told about."""

    number: int
    kind: Kind
    node: str
    params: dict[str, str]
    props: dict[str, str]
    jobset: int | None = None
    ended: dict[str, str] = field(default_factory=dict)

    @property
    def plan(self) -> dict[str, Any]:
        """As its set knows it before it begins."""
        return {"node": self.node, "type": self.kind.name, "params": self.params, "props": self.props}

    @property
    def outcome(self) -> dict[str, Any]:
        """As its set knows it in the end."""
        return {**self.plan, "id": self.number, "state": "finished" if self.ended else "cleaned", **self.ended}

    def event(self, name: str, **fields: Any) -> dict[str, Any]:
        """An event of this job."""
        return {"event": name, "id": self.number, **self._set, **self.plan, **fields}

    def logged(self, message: str, level: int = 0) -> dict[str, Any]:
        """A line that the job logs."""
        return self.event("progress", log={"message": message, "level": level, "tag": self.kind.name})

    def redirect(self, to: str) -> dict[str, Any]:
        """The job goes to another node."""
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


def _with(one: Told, other: Told) -> Told:
    return one._replace(texts=(*one.texts, *other.texts))
