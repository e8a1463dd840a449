"""The crew: writers that are replaced when they die, readers that stay to the end."""

import itertools
import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from tests.torture.faults import Fault

# A process forked from a clean one with everything imported: quick to replace, and no threads are copied.
_CONTEXT: ForkServerContext = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "chalicelib.adapters.aws.client",
        "chalicelib.adapters.dynamodb.log",
        "chalicelib.adapters.sqlite.log",
        "tests.torture.attackers",
        "tests.torture.clients",
        "tests.torture.readers",
        "tests.torture.writers",
    ]
)
WORK_S = 30.0
"""How long anybody may take to finish what they are at."""
LOOK_S = 0.05


@dataclass
class Post:
    """A place in the crew: one process after the other, each told its turn."""

    name: str
    process_of: Callable[[int], tuple[Callable[[Any], None], object]]
    """What the process of this turn is to run, and with what."""
    turn: int = 0
    process: ForkServerProcess | None = None

    def fill(self) -> None:
        """Start the next process."""
        target, argument = self.process_of(self.turn)
        self.process = _CONTEXT.Process(target=target, args=(argument,), daemon=True)
        self.process.start()
        self.turn += 1


@dataclass
class Crew:
    """All processes of a run."""

    posts: list[Post]
    faults: Counter[Fault] = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Fill all posts."""
        for post in self.posts:
            post.fill()

    def decimate(self, between_s: float, rng: random.Random, goes_on: Callable[[], bool]) -> None:
        """Kill one every `between_s` seconds at most, and replace whoever died."""
        victims = itertools.cycle(reversed(self.posts))
        kill_at = time.monotonic() + rng.uniform(0, between_s)
        while goes_on():
            if time.monotonic() > kill_at:
                self._kill(next(victims))
                kill_at = time.monotonic() + rng.uniform(0, between_s)
            wait([post.process.sentinel for post in self.posts if post.process], LOOK_S)
            for post in self.posts:
                if post.process is not None and not post.process.is_alive():
                    self._bury(post)
                    post.fill()

    def dismiss(self) -> None:
        """Wait until all have finished; whoever does not is a surprise."""
        deadline = time.monotonic() + WORK_S
        for post in self.posts:
            if post.process is not None:
                post.process.join(max(0.0, deadline - time.monotonic()))
                if post.process.is_alive():
                    self.surprises.append(f"{post.name} did not finish within {WORK_S:.0f} s")
                self._bury(post)

    def end(self) -> None:
        """Kill whoever is still there, without a word."""
        for post in self.posts:
            if post.process is not None:
                post.process.kill()
                post.process.join()

    def _kill(self, post: Post) -> None:
        if post.process is not None and post.process.is_alive():
            self.faults[Fault.KILLED] += 1
            post.process.kill()
            post.process.join()

    def _bury(self, post: Post) -> None:
        if post.process is None:
            return
        if post.process.is_alive():
            post.process.kill()
            post.process.join()
        elif post.process.exitcode not in (0, -signal.SIGKILL):
            self.surprises.append(f"{post.name} ended with {post.process.exitcode}")
        post.process.close()
        post.process = None
