"""The `annals` command, run in a subprocess."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from annals_client import Replayed
from annals_client.cli import exits
from annals_client.cli.completion import subparsers
from annals_client.cli.parser import create_parser
from annals_client.cli.printing import progress_bar
from tests.client.shell import BIN, Shell, shell_for
from tests.fault_proxy import HttpFault, ScriptedProxy
from tests.serving import JWT_KEY, ROOT, TIMEOUT_S, Member, Server, run_server

CLI_DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_publish_prints_event(shell: Shell, member: Member) -> None:
    done = shell.annals("publish", "deploy/started", "--key", "/web", "--data", '{"by": "anna"}')
    [stored] = member.read_log()["events"]
    assert (done.code, done.err) == (0, "")
    time = stored["timestamp"][:23].replace("T", " ") + "+00:00"
    assert done.out == f'{time}  deploy/started  /web  {{"by": "anna"}}\n'
    assert stored["payload"] == {"type": "json", "data": {"by": "anna"}}


def test_publish_and_follow_by_tags(shell: Shell, member: Member) -> None:
    seat = ("publish", "seat/taken", "--tag", "show:1", "--tag", "seat:12")
    free = ("--fail-if-tags", "seat:12", "--fail-if-tags", "show:1")
    assert [shell.annals(*seat, *free).code for _ in range(2)] == [exits.OK, exits.CONFLICT]
    shell.annals("publish", "show/ended", "--tag", "show:1")
    [taken, ended] = member.read_log()["events"]
    assert (taken["tags"], ended["tags"]) == (["show:1", "seat:12"], ["show:1"])
    assert shell.annals("follow", "--no-wait", "--json", "--tags", "show:1").values == [taken, ended]
    assert shell.annals("follow", "--no-wait", "--json", "--tags", "show:1", "--tags", "seat:12").values == [taken]
    assert "seat/taken  -  #show:1 #seat:12\n" in shell.annals("follow", "--no-wait", "-n", "2").out


@pytest.mark.parametrize(
    "text",
    [
        '{"type": ["a"]}\n\n{"type": ["b"]}\n',
        '[{"type": ["a"]}, {"type": ["b"]}]',
        '{"events": [{"type": ["a"]}, {"type": ["b"]}]}',
    ],
)
def test_publish_reads_events_from_file(text: str, shell: Shell, member: Member, tmp_path: Path) -> None:
    (tmp_path / "events").write_text(text)
    assert shell.annals("publish", "--json", stdin=text).values == member.read_log()["events"]
    shell.annals("publish", "--file", str(tmp_path / "events"))
    assert [event["type"] for event in member.read_log()["events"]] == [["a"], ["b"]] * 2
    assert {event["id"]["session"] for event in member.read_log()["events"]} == {1, 2}


def test_publish_ignored_event_is_reported(shell: Shell) -> None:
    unknown_job = {"event": "finish", "node": "n", "id": 1, "type": "t", "success": "1", "message": "done"}
    done = shell.annals("publish", "--vocabulary", "job", stdin=json.dumps(unknown_job))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("annals: event 1 was not written: ")
    assert "1 event was not written" in done.err


def test_times_are_local_and_name_their_offset(shell: Shell, member: Member) -> None:
    member.request("POST", "/events/job", json={"event": "create", "node": "n1", "id": 7, "type": "backup"})
    listed = shell.annals("snapshot", "job", TZ="America/New_York").out.splitlines()[1]
    followed = shell.annals("follow", "--after", "0", "--count", "1", TZ="America/New_York").out
    (event,) = member.read_log()["events"]
    local = datetime.fromisoformat(event["timestamp"]).astimezone(ZoneInfo("America/New_York"))
    time = local.isoformat(sep=" ", timespec="milliseconds")
    assert (listed.endswith(f"  {time}"), followed.startswith(f"{time}  ")) == (True, True)


def test_failures_have_exit_codes(shell: Shell, member: Member, proxy: ScriptedProxy) -> None:
    taken = ("publish", "seat/taken", "--fail-if-types", "seat/taken")
    codes = {
        "publish": shell.annals(*taken).code,
        "a condition": shell.annals(*taken).code,
        "a bad type": shell.annals("publish", "a/?").code,
        "no such option": shell.annals("publish", "--nonesuch").code,
        "no JSON": shell.annals("publish", "a", "--data", "{").code,
        "no time": shell.annals("follow", "--since", "yesterday").code,
        "a forged token": shell.annals("me", "--token", "forged").code,
        "no token": shell.annals("me", ANNALS_TOKEN="").code,
        "no such job": shell.annals("snapshot", "job", "7").code,
        "no such file": shell.annals("publish", "--file", "/nonesuch").code,
        "no address": shell.annals("me", "--url", "nonsense").code,
        "no server": shell.annals("me", "--url", "http://127.0.0.1:1", "--deadline", "0.1").code,
    }
    proxy.planned.append(HttpFault.FOREIGN_PAGE)
    codes["another site"] = shell_for(member, proxy.url).annals("me").code
    assert codes == {
        "publish": 0,
        "a condition": 5,
        "a bad type": 2,
        "no such option": 2,
        "no JSON": 2,
        "no time": 2,
        "a forged token": 3,
        "no token": 3,
        "no such job": 4,
        "no such file": 1,
        "no address": 1,
        "no server": 6,
        "another site": 1,
    }


def test_failure_prints_one_line_without_traceback(shell: Shell) -> None:
    done = shell.annals("publish", "a/?")
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert done.err.startswith("annals: ")


def test_follow_prints_last_then_new_until_ctrl_c(shell: Shell, member: Member) -> None:
    member.publish("a", "b", "other", "c")
    with shell.start("follow", "-n", "2", "--types", "a", "--types", "b", "--types", "c", "--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert [json.loads(running.stdout.readline())["type"] for _ in range(2)] == [["b"], ["c"]]
        member.publish("other", "a")
        assert json.loads(running.stdout.readline())["type"] == ["a"]
        running.send_signal(signal.SIGINT)
        assert running.wait(TIMEOUT_S) == 130
        assert (running.stdout.read(), running.stderr.read()) == ("", "")


def test_follow_broken_pipe_exits_silently(shell: Shell, member: Member) -> None:
    member.publish("a")
    with shell.start("follow") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        member.publish("b")
        assert running.wait(TIMEOUT_S) == 141
        assert running.stderr.read() == ""


def test_follow_start_options(shell: Shell, member: Member) -> None:
    first, *_ = member.publish("a", "b", "c")
    expected = {
        ("--after", "0"): 3,
        ("--after", str(first["eventId"])): 2,
        ("--since", "1h"): 3,
        ("--since", "2099-01-01"): 0,
        ("-n", "0"): 0,
        ("-n", "1"): 1,
        ("--after", "0", "--count", "2"): 2,
    }
    counts = {options: len(shell.annals("follow", "--no-wait", "--json", *options).values) for options in expected}
    assert counts == expected


def test_follow_gap_warns_and_continues(tmp_path: Path) -> None:
    with run_server(tmp_path, RETENTION_EVENTS="1") as server:
        member = server.organization()
        member.publish("a", "b", "c")
        done = shell_for(member).annals("follow", "--after", "7", "--count", "1", "--json")
    assert [event["type"] for event in done.values] == [["c"]]
    assert done.err.endswith("were removed by retention\n")


def test_color_depends_on_terminal_and_option(shell: Shell, member: Member) -> None:
    member.publish("job/finish")
    arguments = ("follow", "--no-wait")
    assert "\x1b[" not in shell.annals(*arguments).out
    assert "\x1b[32mjob/finish\x1b[0m" in shell.annals(*arguments, "--color", "always").out
    assert "\x1b[32mjob/finish\x1b[0m" in _run_on_terminal(shell, *arguments)
    assert "\x1b[" not in _run_on_terminal(shell, *arguments, "--color", "never")
    assert "\x1b[" not in _run_on_terminal(Shell({**shell.environment, "NO_COLOR": "1"}), *arguments)


def test_query_prints_events(shell: Shell, member: Member) -> None:
    stored = member.publish("a/x", "a/y", "a/x")
    assert shell.annals("query", "server", "--json").values == stored
    assert shell.annals("query", "timeseries", "--json", "-n", "2", "--since", "1h").values == stored[:0:-1]
    assert shell.annals("query", "timeseries", "--json", "--until", "1h").values == []
    assert shell.annals("query", "latest", "--json", "--types", "a/x").values == stored[2:]


def test_snapshot_prints_table_or_json(shell: Shell) -> None:
    job = {"event": "create", "node": "n1", "id": 7, "type": "backup"}
    shell.annals("publish", "--vocabulary", "job", stdin=json.dumps(job))
    listed = shell.annals("snapshot", "job").lines
    assert listed[0].split() == ["path", "state", "result", "label", "updatedAt"]
    assert listed[1].startswith("/7 ")
    [snapshot] = shell.annals("snapshot", "job", "--json").values
    assert [element["path"] for element in snapshot["elements"]] == ["/7"]
    assert listed[2] == f"To follow changes: annals follow --after {snapshot['eventId']}"
    [stored] = shell.annals("snapshot", "job", "7", "--json").values
    assert (stored["id"], stored["eventId"]) == (7, snapshot["eventId"])


def test_observers_put_replay_delete(shell: Shell, member: Member) -> None:
    member.publish("a", "b")
    configuration = {"channel": "app", "types": ["a"], "config": {"to": "anna"}}
    assert shell.annals("observers", "put", "ops", stdin=json.dumps(configuration)).code == 0
    assert shell.annals("observers").lines[1].split()[:3] == ["ops", "global", "app"]
    assert shell.annals("observers", "show", "ops", "--json").values[0]["name"] == "ops"
    replayed = shell.annals("replay", "ops", "--after", "0", "--json").values
    assert [(part["deliveries"], part["done"]) for part in replayed] == [(1, True)]
    assert shell.annals("replay", "ops", "--since", "1h").out == "1 deliveries to ops are queued again\n"
    assert "[##############################] 100%  1 deliveries" in _run_on_terminal(
        shell, "replay", "ops", "--since", "1h"
    )
    assert shell.annals("observers", "failures", "ops", "--json").values == []
    assert shell.annals("observers", "deliveries", "ops").lines[0].split()[:3] == ["at", "state", "address"]
    assert shell.annals("observers", "deliveries", "ops", "--json", "-n", "0").values == []
    assert shell.annals("observers", "retry", "ops", "--json").values == [{"retried": 0}]
    assert shell.annals("observers", "delete", "ops").out == "ops is deleted\n"
    assert shell.annals("observers", "show").code == 2
    assert shell.annals("observers", "show", "ops").code == 4


def test_expectations_put_show_delete(shell: Shell) -> None:
    configuration = json.dumps({"type": "backup", "every": "1h"})
    assert shell.annals("expectations", "put", "nightly", stdin=configuration).code == 0
    assert shell.annals("expectations").lines[1].split()[:2] == ["nightly", "new"]
    assert shell.annals("expectations", "show", "nightly", "--json").values[0]["every"] == "PT1H"
    assert shell.annals("expectations", "delete", "nightly").out == "nightly is deleted\n"
    assert shell.annals("expectations", "show").code == 2
    assert shell.annals("expectations", "show", "nightly").code == 4


def test_report_system_and_me(shell: Shell, member: Member) -> None:
    member.publish("report/ready/report")
    assert [report["name"] for report in shell.annals("report", "--json").values] == ["report"]
    assert shell.annals("report", "nonesuch").code == 4
    assert shell.annals("system", "--json").values[0]["organization"] == member.organization
    assert shell.annals("me", "--json").values[0]["user"] == "anna"


def test_token_is_signed_with_local_key(shell: Shell, server: Server, tmp_path: Path) -> None:
    (tmp_path / "jwt.key").write_text(JWT_KEY + "\n")
    token = shell.annals("token", "--user", "otto", "--orgs", "local,acme", "--data-dir", str(tmp_path)).out.strip()
    [me] = shell.annals("me", "--token", token, "--json", ANNALS_URL=server.url).values
    assert (me["user"], me["organizations"], me["groups"]) == ("otto", ["local", "acme"], ["publishers", "readers"])
    acme_token = shell.annals("token", "--org", "acme", JWT_KEY=JWT_KEY).out.strip()
    assert shell.annals("me", "--token", acme_token, "--json", ANNALS_URL=server.url).values[0]["organizations"] == [
        "acme"
    ]
    assert shell.annals("token", "--json", JWT_KEY=JWT_KEY).values[0].keys() == {"token"}
    without_key = shell.annals("token", "--data-dir", "/nonesuch")
    assert (without_key.code, "OIDC_ISSUER" in without_key.err) == (3, True)


@pytest.mark.parametrize("command", ["serve", "token", "check"])
def test_server_command_without_server_explains(command: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "client" / "annals_client", tmp_path / "annals_client")
    done = subprocess.run(
        [sys.executable, "-m", "annals_client", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"annals: `annals {command}` needs the server's code and dependencies")


@pytest.mark.parametrize(
    "line",
    [
        "publish --key /web",
        "publish --data 1",
        "publish a --file events",
        "publish a --after 7",
        "query server --types a",
        "query server --order ascending",
        "query latest --since 1h",
        "query latest --until 1h",
        "query latest --order-by timestamp",
    ],
)
def test_options_without_effect_are_rejected(line: str, shell: Shell, member: Member) -> None:
    done = shell.annals(*line.split(), stdin='{"type": ["a"]}')
    assert (done.code, done.out, done.err.startswith("annals: ")) == (2, "", True)
    assert member.read_log()["events"] == []


@pytest.mark.parametrize("command", ["annals", *(f"annals {name}" for name in ("publish", "follow", "token"))])
def test_commands_have_help(command: str) -> None:
    program, *arguments = command.split()
    done = subprocess.run([BIN / program, *arguments, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: {command} ")


def test_follow_escapes_control_characters(shell: Shell, member: Member) -> None:
    member.post(
        {"events": [{"type": ["a\x1b[2J"], "key": "/k\nfake\x9b", "payload": {"type": "json", "data": "\u202e"}}]}
    )
    output = _run_on_terminal(shell, "follow", "--no-wait", "--color", "never")
    assert output.rstrip("\r\n").split("  ")[1:] == ["a\\x1b[2J", "/k\\nfake\\x9b", '"\\u202e"']


def test_document_lists_every_exit_code() -> None:
    codes = {value for value in vars(exits).values() if isinstance(value, int)}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", CLI_DOCUMENT, re.MULTILINE)} == codes


def test_document_mentions_every_command() -> None:
    assert [name for name in subparsers(create_parser()) if f"annals {name}" not in CLI_DOCUMENT] == []


def test_progress_bar_is_clamped() -> None:
    parts = [Replayed("r", event_id, 100, 3, event_id >= 100) for event_id in (0, 50, 75, 100)]
    assert [progress_bar(part, 50)[:37] for part in parts] == [
        f"[{'#' * full}{'.' * (30 - full)}] {share}"
        for full, share in ((0, "  0%"), (0, "  0%"), (15, " 50%"), (30, "100%"))
    ]


def _run_on_terminal(shell: Shell, *arguments: str) -> str:
    """Run the command on a pseudo terminal and return its output."""
    terminal, child_end = pty.openpty()
    running = subprocess.Popen(
        [BIN / "annals", *arguments], env=dict(shell.environment), stdout=child_end, stderr=child_end
    )
    os.close(child_end)
    assert running.wait(TIMEOUT_S) == 0
    written = b""
    try:
        while piece := os.read(terminal, 65_536):
            written += piece
    except OSError:  # Linux: the other end is closed
        pass
    os.close(terminal)
    return written.decode()
