"""`annals run` and its sender are killed at random times."""

import contextlib
import os
import random
import signal
import subprocess
from collections import Counter

import pytest

from tests.client.run.runner import Runner, children_of, wait_until

RUNS = 15
COMMAND = ("bash", "-c", "for i in 1 2 3 4 5 6; do echo line $i; read -t 0.05 <> <(:); done; true")


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_any_time_write_nothing_twice(seed: int, runner: Runner) -> None:
    """Each job that was created is finished, and each of its events is in the log once."""
    rng = random.Random(seed)
    for _ in range(RUNS):
        with runner.start("--wait", "0.2", "--", *COMMAND) as running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=rng.uniform(0.05, 0.9))
            victims = [*children_of(running.pid), running.pid] if running.poll() is None else []
            for pid in rng.sample(victims, rng.randint(0, len(victims))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            running.communicate()
    wait_until(lambda: runner.run("--flush").stdout.endswith(b" 0 left\n"))
    assert runner.spooled == []
    events = runner.member.read_log()["events"]
    kinds = Counter((event["key"], event["type"][1]) for event in events if event["type"][1] != "progress")
    progress = [event for event in events if event["type"][1] == "progress"]
    lines = Counter((event["key"], event["payload"]["data"]["log"]["message"]) for event in progress)
    jobs = {key for key, _ in kinds}
    assert kinds == Counter([(key, kind) for key in jobs for kind in ("create", "finish")])
    assert set(lines.values()) == {1}
    assert len(jobs) > RUNS // 2
