"""Push jobs: nodes vote, a quorum of them runs the command; some votes fail, some nodes crash or are sent to rehab."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from infra.tools.demo.narration import Story, Told, some_ms, told

NODES: Final = (*(f"web-{n:02d}" for n in range(1, 9)), "cache-01", "cache-02", "db-01", "db-02")
FRAGILE: Final = "cache-02"
"""A node that is away more often than the others."""
COMMANDS: Final = (
    ("chef-client", 90.0),
    ("restart-app", 12.0),
    ("renew-certificates", 25.0),
    ("update-packages", 240.0),
)
RUN_TIMEOUT_S = 900
_USERS: Final = ("anna", "bela", "robot")


@dataclass
class Pushes:
    """Makes the stories of push jobs."""

    chance: random.Random

    def push(self, at_ms: int) -> Story:
        """A push job from its start to its end."""
        chance = self.chance
        command, seconds = chance.choice(COMMANDS)
        nodes = chance.sample(NODES, chance.randint(3, 8))
        job = f"{chance.getrandbits(128):032x}"
        quorum = math.ceil(len(nodes) * 0.75)
        story = [self._started(job, command, quorum, nodes, at_ms)]
        votes = sorted((at_ms + some_ms(chance, 1.5, 0.7), node, self._vote(node)) for node in nodes)
        story += [_push(job, at, "quorum_vote", node=node, status=status) for at, node, status in votes]
        ready = [node for _, node, status in votes if status == "success"]
        lost = [node for _, node, status in votes if status in ("down", "voting_timeout")]
        at_ms = votes[-1][0] + 5
        story += [_push(job, at_ms, "rehab", node=node) for node in lost]
        if len(ready) < quorum:
            return [*story, _push(job, at_ms + 5, "job_complete", status="quorum_failed")]
        story.append(_push(job, at_ms + 5, "quorum_succeeded"))
        return [*story, *self._runs(job, ready, seconds, at_ms + 10)]

    def _started(self, job: str, command: str, quorum: int, nodes: list[str], at_ms: int) -> Told:
        start = {"command": command, "run_timeout": RUN_TIMEOUT_S, "quorum": quorum, "node_count": len(nodes)}
        return _push(job, at_ms, "start", **start, user=self.chance.choice(_USERS))

    def _vote(self, node: str) -> str:
        weights = (70, 5, 20, 5) if node == FRAGILE else (955, 15, 20, 10)
        (vote,) = self.chance.choices(("success", "failure", "down", "voting_timeout"), weights)
        return vote

    def _runs(self, job: str, ready: list[str], seconds: float, at_ms: int) -> Iterator[Told]:
        """What the nodes do, in the order of time; a node that never ends makes the job time out."""
        chance = self.chance
        hangs = chance.choice(ready) if chance.random() < 0.025 else None
        told_: list[Told] = []
        for node in ready:
            started = at_ms + some_ms(chance, 0.5, 0.6)
            told_.append(_push(job, started, "run_start", node=node))
            if node != hangs:
                (status,) = chance.choices(("success", "failure", "crashed"), (960, 30, 10))
                ended = min(started + some_ms(chance, seconds, 0.4), started + RUN_TIMEOUT_S * 1000 - 1)
                told_.append(_push(job, ended, "run_complete", node=node, status=status))
        yield from sorted(told_, key=lambda one: one.at_ms)
        at_ms = max(one.at_ms for one in told_) + 10
        if hangs is not None:
            at_ms += RUN_TIMEOUT_S * 1000
            yield _push(job, at_ms, "rehab", node=hangs)
        yield _push(job, at_ms + 10, "job_complete", status="complete" if hangs is None else "timed_out")


def _push(job: str, at_ms: int, name: str, **fields: Any) -> Told:
    return told("push", at_ms, {"event": name, "job": job, **fields})
