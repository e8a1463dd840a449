"""Orders that go through job chains: some are set back and tried again, a few end in error or are suspended."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from infra.tools.demo.narration import Story, Told, some_ms, told
from infra.tools.demo.rhythm import Month, Name

MOST_SETBACKS = 3
END, FAILED = "end", "error"


@dataclass(frozen=True, slots=True)
class Chain:
    """A job chain: the nodes that its orders go through, each with its job and what that takes."""

    path: str
    rhythm: Name
    share: float
    nodes: tuple[tuple[str, str, float], ...]


CHAINS: Final = (
    Chain(
        "/shop/checkout",
        "always",
        6,
        (("100", "/shop/validate", 3), ("200", "/shop/charge", 12), ("300", "/shop/ship", 40)),
    ),
    Chain(
        "/data/load",
        "night",
        3,
        (("fetch", "/data/fetch", 90), ("clean", "/data/clean", 200), ("load", "/data/load", 420)),
    ),
    Chain(
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
"""Their names, paths and seconds are made up."""


class Orders:
    """Makes the stories of orders; the numbers of orders and tasks rise."""

    def __init__(self, chance: random.Random, first: int) -> None:
        self.chance = chance
        self.numbers = count(first)
        self.tasks = count(first)

    def opening(self, month: Month) -> Story:
        """The scheduler starts, and its job chains are there."""
        at_ms = month.start_ms
        states = [{"TYPE": "SchedulerStateChanged", "state": state} for state in ("starting", "running")]
        chains = [
            told(
                "scheduler",
                at_ms + 1_000,
                {"TYPE": "FileBasedAdded", "key": f"JobChain:{chain.path}"},
                {"TYPE": "FileBasedActivated", "key": f"JobChain:{chain.path}"},
                {"TYPE": "JobChainStateChanged", "key": chain.path, "state": "running"},
            )
            for chain in CHAINS
        ]
        return [told("scheduler", at_ms, {"TYPE": "SchedulerInitiated"}, *states), *chains]

    def order(self, chain: Chain, at_ms: int) -> Story:
        """An order from its beginning to its end."""
        return list(self._goes_through(chain, f"{chain.path},{next(self.numbers)}", at_ms))

    def _goes_through(self, chain: Chain, key: str, at_ms: int) -> Iterator[Told]:
        nodes, last = [node for node, _, _ in chain.nodes], ""
        yield told("scheduler", at_ms, _order("OrderAdded", key, nodeId=nodes[0]))
        at_ms += some_ms(self.chance, 2, 0.8)
        yield told("scheduler", at_ms, _order("OrderStarted", key, nodeId=nodes[0]))
        for (node, job, seconds), following in zip(chain.nodes, [*nodes[1:], END], strict=True):
            at_ms += some_ms(self.chance, 1, 0.8)
            steps, last = self._steps(key, node, job, seconds, following, at_ms)
            yield from steps
            at_ms = steps[-1].at_ms
            if last == FAILED:
                break
            if self.chance.random() < 0.01:
                yield told("scheduler", at_ms, _order("OrderSuspended", key))
                at_ms += some_ms(self.chance, 1800, 0.7)
                yield told("scheduler", at_ms, _order("OrderResumed", key))
        at_ms += 50
        yield told("scheduler", at_ms, _order("OrderFinished", key, nodeId=last), _order("OrderRemoved", key))

    def _steps(self, key: str, node: str, job: str, seconds: float, following: str, at_ms: int) -> tuple[Story, str]:
        """A step, and again as long as it is set back; and where the order goes from there."""
        story: Story = []
        for tries in count(1):
            task = str(next(self.tasks))
            of_task = {"jobPath": job, "taskId": task}
            start = _order("OrderStepStarted", key, nodeId=node, taskId=task)
            story.append(told("scheduler", at_ms, {"TYPE": "TaskStarted", "key": of_task}, start))
            at_ms += some_ms(self.chance, seconds, 0.5)
            luck = self.chance.random()
            is_back = 0.012 < luck <= 0.06 and tries <= MOST_SETBACKS
            to = FAILED if luck <= 0.06 else following
            story.append(told("scheduler", at_ms, *_outcome(key, node, to, is_back), *_closed(of_task, luck <= 0.06)))
            if not is_back:
                return story, to
            at_ms += some_ms(self.chance, 120 * tries, 0.3)
        raise AssertionError("after the last setback the step ends")


def _outcome(key: str, node: str, to: str, is_back: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    if is_back:
        return _ended(key, TYPE="Keep"), _order("OrderSetBack", key, nodeId=node)
    ended = _ended(key, TYPE="Error", returnCode=1) if to == FAILED else _ended(key, TYPE="Success")
    return ended, _order("OrderNodeChanged", key, nodeId=to, fromNodeId=node)


def _closed(task: dict[str, str], has_failed: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    ended = {"TYPE": "TaskEnded", "key": task, "returnCode": int(has_failed)}
    return ended, {"TYPE": "TaskClosed", "key": task}


def _order(name: str, key: str, **fields: Any) -> dict[str, Any]:
    return {"TYPE": name, "key": key, **fields}


def _ended(key: str, **transition: Any) -> dict[str, Any]:
    return _order("OrderStepEnded", key, nodeTransition=transition)
