"""The command `annals`, as shells and scripts use it."""

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from annals_client import Replayed
from annals_client.cli import exits
from annals_client.cli.completion import commands
from annals_client.cli.parser import parser
from annals_client.cli.printing import bar
from tests.client.proxy import Misdeed, Proxy
from tests.client.shell import BIN, Shell, shell_of
from tests.serving import JWT_KEY, PATIENCE_S, Member, Server, serving

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_an_event_is_published_and_printed(shell: Shell, member: Member) -> None:
    done = shell.annals("publish", "deploy/started", "--key", "/web", "--data", '{"by": "anna"}')
    [stored] = member.stored()["events"]
    assert (done.code, done.err) == (0, "")
    time = stored["timestamp"][:23].replace("T", " ")
    assert done.out == f'{time}  deploy/started  /web  {{"by": "anna"}}\n'
    assert stored["payload"] == {"type": "json", "data": {"by": "anna"}}


@pytest.mark.parametrize(
    "given",
    [
        '{"type": ["a"]}\n\n{"type": ["b"]}\n',
        '[{"type": ["a"]}, {"type": ["b"]}]',
        '{"events": [{"type": ["a"]}, {"type": ["b"]}]}',
    ],
)
def test_events_are_published_from_a_file(given: str, shell: Shell, member: Member, tmp_path: Path) -> None:
    (tmp_path / "events").write_text(given)
    assert shell.annals("publish", "--json", given=given).values == member.stored()["events"]
    shell.annals("publish", "--file", str(tmp_path / "events"))
    assert [event["type"] for event in member.stored()["events"]] == [["a"], ["b"]] * 2
    assert {event["id"]["session"] for event in member.stored()["events"]} == {1, 2}


def test_what_a_vocabulary_ignores_is_told(shell: Shell) -> None:
    unheard = {"event": "finish", "node": "n", "id": 1, "type": "t", "success": "1", "message": "done"}
    done = shell.annals("publish", "--vocabulary", "job", given=json.dumps(unheard))
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("annals: event 1 was not written: ")


def test_each_failure_has_its_exit_code(shell: Shell, member: Member, proxy: Proxy) -> None:
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
    proxy.planned.append(Misdeed.BABBLE)
    codes["another site"] = shell_of(member, proxy.url).annals("me").code
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


def test_a_failure_is_one_line_without_a_traceback(shell: Shell) -> None:
    done = shell.annals("publish", "a/?")
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert done.err.startswith("annals: ")


def test_follow_begins_with_the_last_lines_and_goes_on_until_ctrl_c(shell: Shell, member: Member) -> None:
    member.publish("a", "b", "other", "c")
    with shell.start("follow", "-n", "2", "--types", "a", "--types", "b", "--types", "c", "--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert [json.loads(running.stdout.readline())["type"] for _ in range(2)] == [["b"], ["c"]]
        member.publish("other", "a")
        assert json.loads(running.stdout.readline())["type"] == ["a"]
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130
        assert (running.stdout.read(), running.stderr.read()) == ("", "")


def test_follow_ends_quietly_when_nobody_reads_any_more(shell: Shell, member: Member) -> None:
    member.publish("a")
    with shell.start("follow") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        member.publish("b")
        assert running.wait(PATIENCE_S) == 141
        assert running.stderr.read() == ""


def test_follow_begins_where_it_is_told_to(shell: Shell, member: Member) -> None:
    first, *_ = member.publish("a", "b", "c")
    wanted = {
        ("--after", "0"): 3,
        ("--after", str(first["eventId"])): 2,
        ("--since", "1h"): 3,
        ("--since", "2099-01-01"): 0,
        ("-n", "0"): 0,
        ("-n", "1"): 1,
        ("--after", "0", "--count", "2"): 2,
    }
    found = {words: len(shell.annals("follow", "--no-wait", "--json", *words).values) for words in wanted}
    assert found == wanted


def test_follow_tells_of_a_gap_and_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, RETENTION_EVENTS="1") as server:
        member = server.organization()
        member.publish("a", "b", "c")
        done = shell_of(member).annals("follow", "--after", "7", "--count", "1", "--json")
    assert [event["type"] for event in done.values] == [["c"]]
    assert done.err.endswith("is no longer kept\n")


def test_colours_are_for_terminals_and_for_who_wants_them(shell: Shell, member: Member) -> None:
    member.publish("job/finish")
    words = ("follow", "--no-wait")
    assert "\x1b[" not in shell.annals(*words).out
    assert "\x1b[32mjob/finish\x1b[0m" in shell.annals(*words, "--color", "always").out
    assert "\x1b[32mjob/finish\x1b[0m" in _on_a_terminal(shell, *words)
    assert "\x1b[" not in _on_a_terminal(shell, *words, "--color", "never")
    assert "\x1b[" not in _on_a_terminal(Shell({**shell.environment, "NO_COLOR": "1"}), *words)


def test_queries_print_what_the_log_has(shell: Shell, member: Member) -> None:
    stored = member.publish("a/x", "a/y", "a/x")
    assert shell.annals("query", "server", "--json").values == stored
    assert shell.annals("query", "timeseries", "--json", "-n", "2", "--since", "1h").values == stored[:0:-1]
    assert shell.annals("query", "timeseries", "--json", "--until", "1h").values == []
    assert shell.annals("query", "latest", "--json", "--types", "a/x").values == stored[2:]


def test_snapshots_are_tables_for_people_and_whole_for_programs(shell: Shell) -> None:
    job = {"event": "create", "node": "n1", "id": 7, "type": "backup"}
    shell.annals("publish", "--vocabulary", "job", given=json.dumps(job))
    listed = shell.annals("snapshot", "job").lines
    assert listed[0].split() == ["path", "state", "result", "label", "updatedAt"]
    assert listed[1].startswith("/7 ")
    [told] = shell.annals("snapshot", "job", "--json").values
    assert [one["path"] for one in told["elements"]] == ["/7"]
    assert listed[2] == f"at {told['eventId']}: annals follow --after {told['eventId']}"
    [one] = shell.annals("snapshot", "job", "7", "--json").values
    assert (one["id"], one["eventId"]) == (7, told["eventId"])


def test_observers_are_configured_replayed_and_deleted(shell: Shell, member: Member) -> None:
    member.publish("a", "b")
    configuration = {"channel": "app", "types": ["a"], "config": {"to": "anna"}}
    assert shell.annals("observers", "put", "ops", given=json.dumps(configuration)).code == 0
    assert shell.annals("observers").lines[1].split()[:3] == ["ops", "global", "app"]
    assert shell.annals("observers", "show", "ops", "--json").values[0]["name"] == "ops"
    replayed = shell.annals("replay", "ops", "--after", "0", "--json").values
    assert [(part["deliveries"], part["done"]) for part in replayed] == [(1, True)]
    assert shell.annals("replay", "ops", "--since", "1h").out == "ops is told again of 1 events\n"
    assert "[##############################] 100%  1 deliveries" in _on_a_terminal(
        shell, "replay", "ops", "--since", "1h"
    )
    assert shell.annals("observers", "failures", "ops", "--json").values == []
    assert shell.annals("observers", "retry", "ops", "--json").values == [{"retried": 0}]
    assert shell.annals("observers", "delete", "ops").out == "ops is no more\n"
    assert shell.annals("observers", "show").code == 2
    assert shell.annals("observers", "show", "ops").code == 4


def test_reports_the_system_and_oneself_can_be_asked_for(shell: Shell, member: Member) -> None:
    member.publish("report/ready/report")
    assert [report["name"] for report in shell.annals("report", "--json").values] == ["report"]
    assert shell.annals("report", "nonesuch").code == 4
    assert shell.annals("system", "--json").values[0]["organization"] == member.organization
    assert shell.annals("me", "--json").values[0]["user"] == "anna"


def test_a_token_is_made_with_the_key_of_the_machine(shell: Shell, server: Server, tmp_path: Path) -> None:
    (tmp_path / "jwt.key").write_text(JWT_KEY + "\n")
    made = shell.annals("token", "--user", "otto", "--orgs", "local,acme", "--data-dir", str(tmp_path)).out.strip()
    [me] = shell.annals("me", "--token", made, "--json", ANNALS_URL=server.url).values
    assert (me["user"], me["organizations"], me["groups"]) == ("otto", ["local", "acme"], ["publishers", "readers"])
    named = shell.annals("token", "--org", "acme", JWT_KEY=JWT_KEY).out.strip()
    assert shell.annals("me", "--token", named, "--json", ANNALS_URL=server.url).values[0]["organizations"] == ["acme"]
    assert shell.annals("token", "--json", JWT_KEY=JWT_KEY).values[0].keys() == {"token"}
    elsewhere = shell.annals("token", "--data-dir", "/nonesuch")
    assert (elsewhere.code, "OIDC_ISSUER" in elsewhere.err) == (3, True)


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
def test_what_would_have_no_effect_is_refused(line: str, shell: Shell, member: Member) -> None:
    done = shell.annals(*line.split(), given='{"type": ["a"]}')
    assert (done.code, done.out, done.err.startswith("annals: ")) == (2, "", True)
    assert member.stored()["events"] == []


@pytest.mark.parametrize("command", ["annals", *(f"annals {name}" for name in ("publish", "follow", "token"))])
def test_every_command_explains_itself(command: str) -> None:
    words = command.split()
    done = subprocess.run([BIN / words[0], *words[1:], "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: {command} ")


def test_what_publishers_write_cannot_command_a_terminal(shell: Shell, member: Member) -> None:
    member.post(
        {"events": [{"type": ["a\x1b[2J"], "key": "/k\nfake\x9b", "payload": {"type": "json", "data": "\u202e"}}]}
    )
    told = _on_a_terminal(shell, "follow", "--no-wait", "--color", "never")
    assert told.rstrip("\r\n").split("  ")[1:] == ["a\\x1b[2J", "/k\\nfake\\x9b", '"\\u202e"']


def test_the_document_has_every_exit_code() -> None:
    codes = {value for value in vars(exits).values() if isinstance(value, int)}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT, re.MULTILINE)} == codes


def test_the_document_has_every_command() -> None:
    assert [name for name in commands(parser()) if f"annals {name}" not in DOCUMENT] == []


def test_a_bar_is_never_more_than_full_or_less_than_empty() -> None:
    parts = [Replayed("r", event_id, 100, 3, event_id >= 100) for event_id in (0, 50, 75, 100)]
    assert [bar(part, 50)[:37] for part in parts] == [
        f"[{'#' * full}{'.' * (30 - full)}] {share}"
        for full, share in ((0, "  0%"), (0, "  0%"), (15, " 50%"), (30, "100%"))
    ]


def _on_a_terminal(shell: Shell, *words: str) -> str:
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen([BIN / "annals", *words], env=dict(shell.environment), stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert running.wait(PATIENCE_S) == 0
    written = b""
    try:
        while piece := os.read(ours, 65_536):
            written += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    return written.decode()
