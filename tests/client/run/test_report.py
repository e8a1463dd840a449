"""The events of a run."""

import time
from datetime import datetime

import pytest

from tests.client.run.runner import Runner, messages, new_job_id, ready_line
from tests.fault_proxy import HttpFault, ScriptedProxy
from tests.serving import TIMEOUT_S


def test_run_is_reported_as_a_job(runner: Runner) -> None:
    options = ("--id", "7", "--name", "backup", "--node", "n1", "--param", "db=orders", "--param", "a=b=c")
    done = runner.run(*options, "--author", "anna", "--prop", "nomail=1", "--", "bash", "-c", "echo one; echo two >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\n", b"two\n")
    job = runner.job(7)
    assert (job["type"], job["node"], job["params"]) == ("backup", "n1", {"db": "orders", "a": "b=c"})
    assert job["props"] == {"author": "anna", "nomail": "1", "clean_timeout": "86400"}
    assert (job["state"], job["result"]) == ("finished", {"success": "1", "message": "exit code 0"})
    assert sorted((line["tag"], line["message"]) for line in job["logs"]) == [("stderr", "two"), ("stdout", "one")]
    assert runner.spooled == []


def test_run_without_id_gets_the_next_number(runner: Runner) -> None:
    runner.run("--id", "41", "--", "true")
    for _ in range(2):
        assert runner.run("--name", "backup", "--", "echo", "one").stderr == b""
    jobs = runner.member.get("/objects/job").json()["elements"]
    assert sorted((job["id"], job["run"], job["outcome"]) for job in jobs) == [
        (number, 1, "success") for number in (41, 42, 43)
    ]
    assert [messages(runner.job(number)) for number in (41, 42, 43)] == [[], ["one"], ["one"]]


def test_repeated_create_gets_the_same_number(runner: Runner, proxy: ScriptedProxy) -> None:
    proxy.planned.extend([HttpFault.LOSE_RESPONSE] * 3)
    assert runner.with_url(proxy.url).run("--", "echo", "one").stderr == b""
    kinds = [(event["key"], event["type"][1]) for event in runner.member.read_log()["events"]]
    assert kinds == [("/job/1", "create"), ("/job/1", "progress"), ("/job/1", "finish")]


def test_failure_has_code_and_last_line_of_stderr(runner: Runner) -> None:
    command = "echo first >&2; echo 'disk full ' >&2; echo >&2; echo out; exit 3"
    assert runner.run("--id", "1", "--", "bash", "-c", command).returncode == 3
    job = runner.job(1)
    assert (job["type"], job["result"]) == ("bash", {"success": "0", "message": "exit code 3: disk full"})


def test_lines_are_reported_while_the_command_runs(runner: Runner) -> None:
    with runner.start("--id", "1", "--", "cat") as running:
        assert running.stdin is not None
        running.stdin.write(b"first\n")
        running.stdin.flush()
        assert runner.await_event(1, "progress")["log"]["message"] == "first"
        assert runner.job(1)["state"] == "created"
        running.communicate(b"second", timeout=TIMEOUT_S)
    assert messages(runner.job(1)) == ["first", "second"]


def test_lines_are_cut_and_invalid_bytes_are_replaced(runner: Runner) -> None:
    lines = [b"x" * 5000, b"a\0b", b"\xff\xfe", "grün".encode(), b"", b"dos\r"]
    runner.run("--id", "1", "--", "cat", stdin=b"\n".join(lines))
    cut = "x" * 4000 + "… (1000 more bytes)"
    assert messages(runner.job(1)) == [cut, "a\0b", "\ufffd\ufffd", "grün", "", "dos"]


def test_many_lines_keep_their_order(runner: Runner) -> None:
    text = "".join(f"{number}\n" for number in range(5000))
    runner.run("--id", "1", "--", "cat", stdin=text.encode())
    assert messages(runner.job(1)) == text.split()
    sizes = [event["id"]["session"] for event in runner.events(1)]
    assert max(sizes.count(session) for session in sizes) == 500


def test_longest_names_and_lines_fit_in_a_request(runner: Runner) -> None:
    name = "é" * 50
    lines = [b"\xc3\xa9" * 1500] * 100 + [b"y"] * 1000
    runner.run("--id", "1", "--name", name, "--node", name, "--", "cat", stdin=b"\n".join(lines))
    assert messages(runner.job(1)) == [line.decode() for line in lines]


def test_events_have_the_time_when_they_happened(runner: Runner) -> None:
    before = int(time.time())
    with runner.start("--id", "1", "--", "bash", "-c", "echo ready; read line; echo $line") as running:
        ready_line(running)
        running.communicate(b"go\n", timeout=TIMEOUT_S)
    after = time.time()
    times = [datetime.fromisoformat(event["sourceTimestamp"]).timestamp() for event in runner.events(1)]
    assert len(times) == 4
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= after
    assert all(before <= line["time"] <= after for line in runner.job(1)["logs"])


@pytest.mark.parametrize("fault", [HttpFault.LOSE_REQUEST, HttpFault.LOSE_RESPONSE, HttpFault.UNAVAILABLE])
def test_repeated_requests_write_nothing_twice(fault: HttpFault, runner: Runner, proxy: ScriptedProxy) -> None:
    number = new_job_id()
    proxy.planned.extend([fault, None] * 10)
    done = runner.with_url(proxy.url).run("--id", str(number), "--", "bash", "-c", "echo one; echo two")
    assert (done.returncode, done.stderr) == (0, b"")
    kinds = [event["type"][1] for event in runner.events(number)]
    assert kinds == ["create", "progress", "progress", "finish"]


def test_refused_token_keeps_the_report(runner: Runner) -> None:
    done = runner.run("--id", "1", "--", "true", environment={"ANNALS_TOKEN": "forged"})
    assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)
    assert done.stderr.startswith(b"annals: the report of true is not complete: ")
    assert b"token" in done.stderr
    assert len(runner.spooled) == 1


def test_run_without_spool_is_reported_through_tmp(runner: Runner) -> None:
    runner.state.write_text("no folder")
    assert runner.run("--id", "1", "--", "echo", "one").stderr == b""
    assert messages(runner.job(1)) == ["one"]


def test_run_without_any_spool_warns(runner: Runner) -> None:
    runner.state.write_text("no folder")
    done = runner.run("--id", "1", "--", "echo", "one", environment={"TMPDIR": "/proc"})
    assert (done.returncode, done.stdout) == (0, b"one\n")
    assert b"the spool cannot be written" in done.stderr
