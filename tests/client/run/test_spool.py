"""Reports that the server did not get in time."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.client.run.runner import (
    Runner,
    children_of,
    free_port,
    messages,
    ready_line,
    silent_server,
    wait_until,
)
from tests.client.shell import shell_for
from tests.fault_proxy import HttpFault, ScriptedProxy
from tests.serving import TIMEOUT_S, run_server

AWAY = "http://127.0.0.1:1"
LOST = "annals run was killed, or the machine stopped. The result of the command is unknown"


def test_next_call_sends_after_the_server_is_back(runner: Runner, tmp_path: Path) -> None:
    port = free_port()
    away = runner.with_url(f"http://127.0.0.1:{port}")
    for number in (1, 2):
        done = away.run("--id", str(number), "--wait", "2", "--", "bash", "-c", f"echo {number}; exit {number}")
        assert (done.returncode, done.stdout) == (number, f"{number}\n".encode())
        assert b"is not complete: no response" in done.stderr
    assert len(runner.spooled) == 2
    with run_server(tmp_path / "data", PORT=str(port)) as server:
        member = server.organization()
        back = Runner(shell_for(member), member, runner.state)
        # The token of the new server has another organization, so the old runs are not for it.
        assert back.run("--id", "3", "--", "true").stderr == b""
        assert len(runner.spooled) == 2
        same = server.member(runner.member.organization)
        same.create()
        again = Runner(shell_for(same), same, runner.state)
        assert again.run("--id", "4", "--", "true").stderr == b""
        assert runner.spooled == []
        assert [messages(again.job(number)) for number in (1, 2, 4)] == [["1"], ["2"], []]
        order = [event["key"] for event in same.read_log()["events"] if event["type"][1] == "create"]
        assert order == ["/job/1", "/job/2", "/job/4"]


def test_flush_sends_earlier_runs(runner: Runner) -> None:
    _spool(runner, 1, 2)
    assert runner.run("--flush").stdout == b"2 sent, 0 left\n"
    assert runner.spooled == []
    assert [runner.job(number)["result"]["message"] for number in (1, 2)] == ["exit code 0"] * 2


def test_flush_failures_have_exit_codes(runner: Runner) -> None:
    _spool(runner, 1)
    assert runner.run("--flush", environment={"ANNALS_TOKEN": ""}).returncode == 3
    assert runner.run("--flush", "--org", "no-such-organization").stdout == b"0 sent, 1 left\n"
    assert len(runner.spooled) == 1


def test_token_is_not_sent_to_another_server(runner: Runner) -> None:
    with silent_server() as url:
        runner.with_url(url).run("--id", "1", "--wait", "0", "--", "true")
        assert runner.run("--flush").stdout == b"0 sent, 1 left\n"
    assert runner.member.read_log()["events"] == []


def test_spool_is_private_and_has_no_token(runner: Runner) -> None:
    _spool(runner, 1)
    files = [path for folder in (runner.state / "annals").rglob("*") for path in (folder, folder.parent)]
    assert all(path.stat().st_mode & 0o077 == 0 for path in files if "runs" in path.parts)
    contents = b"".join(path.read_bytes() for path in files if path.is_file())
    assert (runner.member.token.encode() in contents, b"exit code 0" in contents) == (False, True)


def test_killed_run_is_reported_by_its_sender(runner: Runner) -> None:
    with runner.start("--id", "1", "--", "cat") as running:
        _type_line(running)
        assert runner.await_event(1, "progress")["log"]["message"] == "started"
        running.kill()
        assert runner.await_event(1, "finish")["message"] == LOST
    assert messages(runner.job(1)) == ["started"]
    wait_until(lambda: runner.spooled == [])


def test_killed_run_is_reported_by_the_next_call(runner: Runner) -> None:
    with runner.with_url(AWAY).start("--id", "1", "--", "cat") as running:
        _type_line(running)
        wait_until(lambda: runner.spooled)
        [folder] = runner.spooled
        wait_until(lambda: b"started" in b"".join(path.read_bytes() for path in folder.glob("output-*")))
        for pid in (running.pid, *children_of(running.pid)):
            os.kill(pid, signal.SIGKILL)
    _redirect_spool(runner)
    assert runner.run("--flush").stdout == b"1 sent, 0 left\n"
    assert (messages(runner.job(1)), runner.job(1)["result"]["message"]) == (["started"], LOST)


def test_active_run_is_not_sent_by_others(runner: Runner) -> None:
    with runner.start("--id", "1", "--", "cat") as running:
        _type_line(running)
        wait_until(lambda: runner.spooled)
        assert runner.run("--flush").stdout == b"0 sent, 1 left\n"
        running.communicate(timeout=TIMEOUT_S)
    assert runner.job(1)["result"]["message"] == "exit code 0"


@pytest.mark.parametrize("answered", range(4))
def test_sender_killed_after_lost_response_writes_once(answered: int, runner: Runner, proxy: ScriptedProxy) -> None:
    """The server has written the request, but the sender was killed before it knew."""
    proxied = runner.with_url(proxy.url)
    proxy.planned.extend([None] * answered + [HttpFault.LOSE_RESPONSE] * 1000)
    proxied.run("--wait", "0.8", "--", "bash", "-c", "echo one; read -t 0.6 <> <(:); echo two")
    proxy.planned.clear()
    proxied.run("--flush")
    kinds = [event["type"][1] for event in runner.member.read_log()["events"]]
    assert (kinds, runner.spooled) == (["create", "progress", "progress", "finish"], [])


def test_run_that_the_server_cannot_take_does_not_block(runner: Runner, proxy: ScriptedProxy) -> None:
    """The requests of one older run fail, and those of the newer runs succeed."""
    for number in (1, 2):
        runner.with_url(AWAY).run("--id", str(number), "--wait", "0", "--", "true")
    _redirect_spool(runner, proxy.url)
    proxy.planned.append(HttpFault.LOSE_REQUEST)
    done = runner.with_url(proxy.url).run("--id", "3", "--", "true")
    assert (done.stderr, len(runner.spooled)) == (b"", 1)
    assert [len(runner.events(number)) for number in (1, 2, 3)] == [0, 2, 2]


def test_report_is_sent_when_the_server_is_back(runner: Runner, proxy: ScriptedProxy) -> None:
    """The pause after many failures ends with the command."""
    proxy.planned.extend([HttpFault.LOSE_REQUEST] * 1000)
    with runner.with_url(proxy.url).start("--id", "1", "--", "cat") as running:
        _type_line(running)
        wait_until(lambda: len(proxy.requests) >= 3)
        proxy.planned.clear()
        assert running.communicate(timeout=TIMEOUT_S) == (b"", b"")
    assert messages(runner.job(1)) == ["started"]


def test_concurrent_calls_send_each_event_once(runner: Runner) -> None:
    _spool(runner, *range(1, 9))
    with ThreadPoolExecutor(6) as threads:
        runs = threads.map(lambda number: runner.run("--id", str(number), "--", "echo", "x"), range(101, 107))
        assert [done.stderr for done in runs] == [b""] * 6
    runner.run("--flush")
    assert runner.spooled == []
    for number in (*range(1, 9), *range(101, 107)):
        assert [event["type"][1] for event in runner.events(number)] == ["create", "progress", "finish"]


def _spool(runner: Runner, *numbers: int) -> None:
    """Leave runs in the spool that are for the server, but have never reached it."""
    for number in numbers:
        runner.with_url(AWAY).run("--id", str(number), "--wait", "0", "--", "echo", "x")
    _redirect_spool(runner)


def _redirect_spool(runner: Runner, url: str = "") -> None:
    """Change the destination of all spooled runs from `AWAY` to the server, or to `url`."""
    for folder in runner.spooled:
        description = folder / "run.json"
        description.write_text(description.read_text().replace(AWAY, url or runner.member.server.url))


def _type_line(running: "subprocess.Popen[bytes]") -> None:
    assert running.stdin is not None
    running.stdin.write(b"started\n")
    running.stdin.flush()
    assert ready_line(running) == b"started\n"
