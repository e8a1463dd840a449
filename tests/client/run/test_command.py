"""The command runs as it would without `annals run`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.run.runner import Runner, new_job_id, ready_line, silent_server, wait_until
from tests.client.shell import BIN
from tests.serving import ROOT, TIMEOUT_S

SIGNALS = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
NO_TOKEN_WARNING = b"annals: the run is not reported: set ANNALS_URL and ANNALS_TOKEN\n"
PRINT_SIGNAL = """
import signal
waited = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, waited)
print("ready", flush=True)
print(signal.Signals(signal.sigwait(waited)).name, signal.sigtimedwait(waited, 0.3), flush=True)
"""
"""Prints the name of the first signal, and the second one if it comes within 0.3 seconds."""


@pytest.mark.parametrize("command", ["exit 0", "exit 3", "exit 255", "kill -KILL $$", "kill -TERM $$"])
def test_exit_code_is_that_of_the_shell(command: str, runner: Runner) -> None:
    # A shell in between converts the end by a signal to 128 + n.
    plain = subprocess.run(["bash", "-c", f"bash -c '{command}'; exit $?"], check=False, capture_output=True)
    done = runner.run("--id", str(new_job_id()), "--", "bash", "-c", command)
    assert (done.returncode, done.stderr) == (plain.returncode, b"")


def test_command_not_found_is_127(runner: Runner) -> None:
    done = runner.run("--id", "1", "--", "no-such-command")
    assert (done.returncode, done.stderr) == (127, b"annals: no-such-command: command not found\n")
    assert runner.job(1)["result"] == {"success": "0", "message": "no-such-command: command not found"}


def test_command_not_executable_is_126(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    done = runner.run("--id", "1", "--", str(tmp_path / "script"))
    assert done.returncode == 126
    assert runner.job(1)["result"]["message"].endswith("script: cannot be executed: Permission denied")


def test_binary_output_is_unchanged(runner: Runner) -> None:
    data = os.urandom(300_000) + b"\n\0\xff no line break at the end"
    done = runner.run("--id", "1", "--", "bash", "-c", "tee /dev/stderr", stdin=data)
    assert (done.returncode, done.stdout == data, done.stderr == data) == (0, True, True)
    assert runner.job(1)["state"] == "finished"


@pytest.mark.parametrize("name", SIGNALS)
def test_signal_is_forwarded_once(name: str, runner: Runner) -> None:
    with runner.start("--id", str(new_job_id()), "--", sys.executable, "-c", PRINT_SIGNAL) as running:
        assert ready_line(running) == b"ready\n"
        running.send_signal(signal.Signals[f"SIG{name}"])
        assert running.communicate(timeout=TIMEOUT_S) == (f"SIG{name} None\n".encode(), b"")
    assert running.returncode == 0


def test_ctrl_c_reaches_the_command_once(runner: Runner) -> None:
    terminal, child_end = os.openpty()
    with subprocess.Popen(
        ["setsid", "--ctty", "--wait", BIN / "annals", "run", "--id", "1", "--", sys.executable, "-c", PRINT_SIGNAL],
        cwd=ROOT,
        env=runner.environment,
        stdin=child_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        os.close(child_end)
        assert ready_line(running) == b"ready\n"
        os.write(terminal, b"\x03")
        assert running.communicate(timeout=TIMEOUT_S) == (b"SIGINT None\n", b"")
    os.close(terminal)
    assert running.returncode == 0


def test_command_has_our_signal_settings(runner: Runner) -> None:
    with runner.start("--id", "1", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status") as running:
        masks = [int(line.split()[1], 16) for line in running.communicate(timeout=TIMEOUT_S)[0].splitlines()]
    # posix_spawn of glibc ignores the signals 32 and 33, which its threads use.
    assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0]


def test_signals_without_their_sender_are_received() -> None:
    script = """
import os, signal
from annals_client.run import signals
signals.block()
print(signals.wait_without_sender(0.01))
os.kill(os.getpid(), signal.SIGTERM)
print(*signals.wait_without_sender(None))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n15 False\n"


def test_full_pipe_of_the_reader_is_waited_for(runner: Runner) -> None:
    """Some programs make our standard output non-blocking, because it is also theirs."""
    source, target = os.pipe()
    os.set_blocking(target, False)
    data = os.urandom(500_000)
    with subprocess.Popen(
        [BIN / "annals", "run", "--id", "1", "--", "cat"],
        cwd=ROOT,
        env=runner.environment,
        stdin=subprocess.PIPE,
        stdout=target,
    ) as running:
        os.close(target)
        assert running.stdin is not None
        running.stdin.write(data)
        running.stdin.close()
        with os.fdopen(source, "rb") as reader:
            assert reader.read() == data
    assert running.returncode == 0


def test_timeout_ends_the_command(runner: Runner) -> None:
    done = runner.run("--id", "1", "--timeout", "0.2s", "--", "bash", "-c", "echo waiting >&2; exec sleep 60")
    assert done.returncode == 124
    message = "timed out after 0.2s, killed by SIGTERM: waiting"
    assert runner.job(1)["result"] == {"success": "0", "message": message}


def test_timeout_does_not_wait_for_a_stopped_reader(runner: Runner) -> None:
    with runner.start("--id", "1", "--timeout", "0.3", "--", "yes") as running:
        assert running.wait(TIMEOUT_S) == 124
    assert runner.job(1)["result"]["message"] == "timed out after 0.3, killed by SIGTERM"


def test_timeout_kills_a_command_that_ignores_term(runner: Runner) -> None:
    options = ("--id", "1", "--timeout", "0.3", "--kill-after", "0.1")
    ignore = "trap '' TERM; while :; do read -t 60 <> <(:); done"
    assert runner.run(*options, "--", "bash", "-c", ignore).returncode == 124
    assert runner.job(1)["result"]["message"] == "timed out after 0.3, killed by SIGKILL"


def test_reader_that_leaves_ends_the_command(runner: Runner) -> None:
    with runner.start("--id", "1", "--", "yes") as running:
        assert ready_line(running) == b"y\n"
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(TIMEOUT_S) == 128 + 13
    assert runner.job(1)["result"]["message"] == "killed by SIGPIPE"


def test_background_process_does_not_delay_the_end(runner: Runner) -> None:
    command = "(trap '' HUP; exec sleep 600) & echo $!"
    with runner.start("--id", "1", "--", "bash", "-c", command) as running:
        pid = int(ready_line(running))
        assert running.wait(TIMEOUT_S) == 0
        os.kill(pid, 9)
    assert runner.job(1)["result"]["success"] == "1"


@pytest.mark.parametrize("missing", ["ANNALS_URL", "ANNALS_TOKEN"])
def test_without_configuration_command_runs(missing: str, runner: Runner) -> None:
    done = runner.run("--", "bash", "-c", "echo out; exit 4", environment={missing: ""})
    assert (done.returncode, done.stdout, done.stderr) == (4, b"out\n", NO_TOKEN_WARNING)
    assert runner.run("--quiet", "--", "true", environment={missing: ""}).stderr == b""
    assert runner.run("--timeout", "0.1", "--", "sleep", "60", environment={missing: ""}).returncode == 124


def test_silent_server_does_not_delay_the_command(runner: Runner) -> None:
    with silent_server() as url, runner.with_url(url).start("--id", "1", "--wait", "0.2", "--", "cat") as running:
        assert running.stdin is not None
        for line in (b"first\n", b"second\n"):
            running.stdin.write(line)
            running.stdin.flush()
            assert ready_line(running) == line
        out, err = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, out, err.count(b"\n")) == (0, b"", 1)
    assert b"The next `annals run` sends the rest" in err


def test_signal_ends_the_wait_for_the_report(runner: Runner) -> None:
    run = runner.with_url("http://127.0.0.1:1").start
    with run("--id", "1", "--wait", "1h", "--", "bash", "-c", "exit 4") as running:
        wait_until(lambda: [path for run in runner.spooled for path in run.glob("finish.json")])
        running.send_signal(signal.SIGTERM)
        assert running.wait(TIMEOUT_S) == 4
    assert len(runner.spooled) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--name", "a/b", "--", "true"],
        ["--name", "x" * 101, "--", "true"],
        ["--param", "novalue", "--", "true"],
        ["--timeout", "soon", "--", "true"],
        ["--id", "-1", "--", "true"],
        ["--name", "backup"],
        ["--name", "backup", "true"],
        ["--flush", "--", "true"],
    ],
)
def test_wrong_options_are_explained(options: list[str], runner: Runner) -> None:
    done = runner.run(*options)
    assert (done.returncode, done.stderr.startswith(b"usage: annals run [OPTION]... -- COMMAND")) == (2, True)
    assert runner.spooled == []


def test_command_starts_before_a_client_is_imported(runner: Runner) -> None:
    script = "import sys, annals_client.cli.main, annals_client.cli.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], env=runner.environment, capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "annals_client.run.command" in loaded
    assert loaded & {"httpx", "ssl", "asyncio", "json", "logging", "threading", "subprocess", "inspect"} <= {
        "threading"
    }
