"""Commands with very much output."""

import os
import subprocess
import sys
import time

import pytest

from tests.client.run.runner import Runner, messages, silent_server
from tests.client.shell import BIN
from tests.serving import ROOT

pytestmark = pytest.mark.serial
SIZE = 100 * 1024 * 1024
MAX_MEMORY_KB = 64 * 1024
MAX_OUTPUT_S = 10
"""An idle machine takes 0.2 seconds."""
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command and prints the memory of its largest process. This process is small, unlike that of the tests."""


@pytest.mark.parametrize("is_silent", [False, True], ids=["server answers", "server is silent"])
def test_chatty_command_is_fast_in_bounded_memory(is_silent: bool, runner: Runner) -> None:
    with silent_server() as silent:
        chatty = runner.with_url(silent) if is_silent else runner
        command = f"yes | head -c {SIZE}; echo last >&2"
        annals_run = [str(BIN / "annals"), "run", "--id", "1", "--wait", "0.5s" if is_silent else "60s"]
        started_at = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-c", MEASURE, *annals_run, "--", "bash", "-c", command],
            cwd=ROOT,
            env=chatty.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            received = 0
            while data := os.read(running.stdout.fileno(), 1 << 20):
                received += len(data)
            output_s = time.monotonic() - started_at
            memory_kb = int(running.stderr.read().split()[-1])
    assert (running.returncode, received) == (0, SIZE)
    assert output_s < MAX_OUTPUT_S
    assert memory_kb < MAX_MEMORY_KB
    if is_silent:
        assert sum(path.stat().st_size for run in runner.spooled for path in run.iterdir()) < 3_000_000
        return
    lines = messages(runner.job(1))
    missing = sum(int(line.split()[1]) for line in lines if "are missing here" in line)
    assert (missing + sum(line == "y" for line in lines), lines.count("last")) == (SIZE // 2, 1)
    assert missing > SIZE // 4
