"""Generates orders that pass through job chains: some are set back and retried, a few fail or are suspended."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from infra.tools.demo.load_profile import LoadProfile, Month
from infra.tools.demo.publish_request import Lifecycle, PublishRequest, publish_request, random_duration_ms

MAX_SETBACKS = 3
END, FAILED = "end", "error"


@dataclass(frozen=True, slots=True)
class JobChain:
    """A job chain: its nodes with their jobs and median durations in seconds."""

    path: str
    profile: LoadProfile
    share: float
    nodes: tuple[tuple[str, str, float], ...]


JOB_CHAINS: Final = (
    JobChain(
        "/shop/checkout",
        "always",
        6,
        (("100", "/shop/validate", 3), ("200", "/shop/charge", 12), ("300", "/shop/ship", 40)),
    ),
    JobChain(
        "/data/load",
        "night",
        3,
        (("fetch", "/data/fetch", 90), ("clean", "/data/clean", 200), ("load", "/data/load", 420)),
    ),
    JobChain(
        "/finance/closing",
        "morning",
        1,
        (
            ("collect", "/finance/collect", 60),
            ("match", "/finance/match", 300),
            ("post", "/finance/post", 45),
            ("print", "/finance/print", 120),
        ),
    ),
)
"""The names, paths and durations are invented."""


class OrderGenerator:
    """Generates the lifecycles of orders, with increasing order and task numbers."""

    def __init__(self, rng: random.Random, first: int) -> None:
        self.rng = rng
        self.numbers = count(first)
        self.tasks = count(first)

    def opening(self, month: Month) -> Lifecycle:
        """The start of the scheduler and its job chains."""
        at_ms = month.start_ms
        states = [{"TYPE": "SchedulerStateChanged", "state": state} for state in ("starting", "running")]
        chains = [
            publish_request(
                "scheduler",
                at_ms + 1_000,
                {"TYPE": "FileBasedAdded", "key": f"JobChain:{chain.path}"},
                {"TYPE": "FileBasedActivated", "key": f"JobChain:{chain.path}"},
                {"TYPE": "JobChainStateChanged", "key": chain.path, "state": "running"},
            )
            for chain in JOB_CHAINS
        ]
        return [publish_request("scheduler", at_ms, {"TYPE": "SchedulerInitiated"}, *states), *chains]

    def order(self, chain: JobChain, at_ms: int) -> Lifecycle:
        return list(self._run(chain, f"{chain.path},{next(self.numbers)}", at_ms))

    def _run(self, chain: JobChain, key: str, at_ms: int) -> Iterator[PublishRequest]:
        nodes, final_node = [node for node, _, _ in chain.nodes], ""
        yield publish_request("scheduler", at_ms, _order("OrderAdded", key, nodeId=nodes[0]))
        at_ms += random_duration_ms(self.rng, 2, 0.8)
        yield publish_request("scheduler", at_ms, _order("OrderStarted", key, nodeId=nodes[0]))
        for (node, job, seconds), next_node in zip(chain.nodes, [*nodes[1:], END], strict=True):
            at_ms += random_duration_ms(self.rng, 1, 0.8)
            steps, final_node = self._steps(key, node, job, seconds, next_node, at_ms)
            yield from steps
            at_ms = steps[-1].at_ms
            if final_node == FAILED:
                break
            if self.rng.random() < 0.01:
                yield publish_request("scheduler", at_ms, _order("OrderSuspended", key))
                at_ms += random_duration_ms(self.rng, 1800, 0.7)
                yield publish_request("scheduler", at_ms, _order("OrderResumed", key))
        at_ms += 50
        yield publish_request(
            "scheduler", at_ms, _order("OrderFinished", key, nodeId=final_node), _order("OrderRemoved", key)
        )

    def _steps(
        self, key: str, node: str, job: str, seconds: float, next_node: str, at_ms: int
    ) -> tuple[Lifecycle, str]:
        """The attempts of a step until one is not set back, and the node that the order moves to."""
        lifecycle: Lifecycle = []
        for attempt in count(1):
            task = str(next(self.tasks))
            task_key = {"jobPath": job, "taskId": task}
            start = _order("OrderStepStarted", key, nodeId=node, taskId=task)
            lifecycle.append(publish_request("scheduler", at_ms, {"TYPE": "TaskStarted", "key": task_key}, start))
            at_ms += random_duration_ms(self.rng, seconds, 0.5)
            draw = self.rng.random()
            is_set_back = 0.012 < draw <= 0.06 and attempt <= MAX_SETBACKS
            target = FAILED if draw <= 0.06 else next_node
            lifecycle.append(
                publish_request(
                    "scheduler", at_ms, *_outcome(key, node, target, is_set_back), *_task_ended(task_key, draw <= 0.06)
                )
            )
            if not is_set_back:
                return lifecycle, target
            at_ms += random_duration_ms(self.rng, 120 * attempt, 0.3)
        raise AssertionError("the last attempt is never set back")


def _outcome(key: str, node: str, target: str, is_set_back: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    if is_set_back:
        return _step_ended(key, TYPE="Keep"), _order("OrderSetBack", key, nodeId=node)
    step_ended = _step_ended(key, TYPE="Error", returnCode=1) if target == FAILED else _step_ended(key, TYPE="Success")
    return step_ended, _order("OrderNodeChanged", key, nodeId=target, fromNodeId=node)


def _task_ended(task: dict[str, str], has_failed: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    task_ended = {"TYPE": "TaskEnded", "key": task, "returnCode": int(has_failed)}
    return task_ended, {"TYPE": "TaskClosed", "key": task}


def _order(name: str, key: str, **fields: Any) -> dict[str, Any]:
    return {"TYPE": name, "key": key, **fields}


def _step_ended(key: str, **transition: Any) -> dict[str, Any]:
    return _order("OrderStepEnded", key, nodeTransition=transition)
