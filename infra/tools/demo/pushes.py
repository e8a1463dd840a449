"""Generates push jobs: nodes vote, and a quorum runs the command. Some votes fail, some nodes crash or go to rehab."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from infra.tools.demo.publish_request import Lifecycle, PublishRequest, publish_request, random_duration_ms

NODES: Final = (*(f"web-{n:02d}" for n in range(1, 9)), "cache-01", "cache-02", "db-01", "db-02")
FLAKY_NODE: Final = "cache-02"
"""A node that is down more often than the others."""
COMMANDS: Final = (
    ("chef-client", 90.0),
    ("restart-app", 12.0),
    ("renew-certificates", 25.0),
    ("update-packages", 240.0),
)
RUN_TIMEOUT_S = 900
_USERS: Final = ("anna", "bela", "robot")


@dataclass
class PushJobGenerator:
    """Generates the lifecycles of push jobs."""

    rng: random.Random

    def push_job(self, at_ms: int) -> Lifecycle:
        rng = self.rng
        command, seconds = rng.choice(COMMANDS)
        nodes = rng.sample(NODES, rng.randint(3, 8))
        job = f"{rng.getrandbits(128):032x}"
        quorum = math.ceil(len(nodes) * 0.75)
        lifecycle = [self._start(job, command, quorum, nodes, at_ms)]
        votes = sorted((at_ms + random_duration_ms(rng, 1.5, 0.7), node, self._vote(node)) for node in nodes)
        lifecycle += [_request(job, at, "quorum_vote", node=node, status=status) for at, node, status in votes]
        ready = [node for _, node, status in votes if status == "success"]
        unavailable = [node for _, node, status in votes if status in ("down", "voting_timeout")]
        at_ms = votes[-1][0] + 5
        lifecycle += [_request(job, at_ms, "rehab", node=node) for node in unavailable]
        if len(ready) < quorum:
            return [*lifecycle, _request(job, at_ms + 5, "job_complete", status="quorum_failed")]
        lifecycle.append(_request(job, at_ms + 5, "quorum_succeeded"))
        return [*lifecycle, *self._runs(job, ready, seconds, at_ms + 10)]

    def _start(self, job: str, command: str, quorum: int, nodes: list[str], at_ms: int) -> PublishRequest:
        start = {"command": command, "run_timeout": RUN_TIMEOUT_S, "quorum": quorum, "node_count": len(nodes)}
        return _request(job, at_ms, "start", **start, user=self.rng.choice(_USERS))

    def _vote(self, node: str) -> str:
        weights = (70, 5, 20, 5) if node == FLAKY_NODE else (955, 15, 20, 10)
        (vote,) = self.rng.choices(("success", "failure", "down", "voting_timeout"), weights)
        return vote

    def _runs(self, job: str, ready: list[str], seconds: float, at_ms: int) -> Iterator[PublishRequest]:
        """The runs of the nodes, in order of time. A node that hangs makes the job time out."""
        rng = self.rng
        hanging_node = rng.choice(ready) if rng.random() < 0.025 else None
        requests: list[PublishRequest] = []
        for node in ready:
            started = at_ms + random_duration_ms(rng, 0.5, 0.6)
            requests.append(_request(job, started, "run_start", node=node))
            if node != hanging_node:
                (status,) = rng.choices(("success", "failure", "crashed"), (960, 30, 10))
                ended = min(started + random_duration_ms(rng, seconds, 0.4), started + RUN_TIMEOUT_S * 1000 - 1)
                requests.append(_request(job, ended, "run_complete", node=node, status=status))
        yield from sorted(requests, key=lambda request: request.at_ms)
        at_ms = max(request.at_ms for request in requests) + 10
        if hanging_node is not None:
            at_ms += RUN_TIMEOUT_S * 1000
            yield _request(job, at_ms, "rehab", node=hanging_node)
        yield _request(job, at_ms + 10, "job_complete", status="complete" if hanging_node is None else "timed_out")


def _request(job: str, at_ms: int, name: str, **fields: Any) -> PublishRequest:
    return publish_request("push", at_ms, {"event": name, "job": job, **fields})
