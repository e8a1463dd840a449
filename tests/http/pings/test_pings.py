"""Every path of Healthchecks.io's pinging API, and the events that a ping becomes."""

import shutil
import subprocess
from urllib.parse import quote, unquote
from uuid import uuid4

import pytest

from tests.http.pings.ping_client import Pinger
from tests.serving import TIMEOUT_S


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize(
    ("path", "outcomes"),
    [
        ("backup", ["success"]),
        ("backup/start", [None]),
        ("backup/fail", ["failure"]),
        ("backup/0", ["success"]),
        ("backup/1", ["failure"]),
        ("backup/255", ["failure"]),
        ("backup/log", []),
    ],
)
def test_first_ping_creates_name(method: str, path: str, outcomes: list[str | None], pinger: Pinger) -> None:
    response = pinger.ping(f"{path}?create=1", method)
    assert (response.status_code, response.text) == (201, "" if method == "HEAD" else "Created")
    assert pinger.outcomes() == outcomes


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("path", ["backup", "backup/start", "backup/fail", "backup/3", "backup/log"])
def test_ping_of_known_name_is_ok(method: str, path: str, pinger: Pinger) -> None:
    pinger.new("backup")
    response = pinger.ping(path, method)
    assert (response.status_code, response.text) == (200, "" if method == "HEAD" else "OK")
    assert {name: response.headers[name] for name in ("content-type", "cache-control", "ping-body-limit")} == {
        "content-type": "text/plain; charset=utf-8",
        "cache-control": "no-store",
        "ping-body-limit": "102400",
    }


@pytest.mark.parametrize("path", ["backup", "backup/start", "backup/fail", "backup/0", "backup/log", "backup?create=0"])
def test_ping_of_unknown_name_without_create_is_404(path: str, pinger: Pinger) -> None:
    pinger.new("other")
    response = pinger.ping(path)
    assert (response.status_code, "add create=1" in response.json()["detail"]) == (404, True)
    assert len(pinger.commits()) == 1


def test_start_and_success_are_one_run(pinger: Pinger) -> None:
    pinger.new("backup/start?node=n1")
    assert pinger.ping("backup").status_code == 200
    job = pinger.job(1)
    assert (job["type"], job["node"], job["outcome"], job["durationS"] > 0) == ("backup", "n1", "success", True)
    assert pinger.commits() == [["job/create/n1/backup"], ["job/finish/n1/backup"]]


@pytest.mark.parametrize(
    ("path", "message"),
    [("fail", "failed"), ("7", "exit status 7"), ("fail?rid=5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278", "failed")],
)
def test_failure_without_start_is_a_whole_run(path: str, message: str, pinger: Pinger) -> None:
    pinger.new(f"backup/{path}")
    assert pinger.commits() == [["job/create/ping/backup", "job/finish/ping/backup"]]
    assert (pinger.job(1)["outcome"], pinger.job(1)["error"]) == ("failure", message)


def test_each_success_without_start_is_a_new_run(pinger: Pinger) -> None:
    pinger.new("backup")
    for _ in range(3):
        pinger.ping("backup")
    assert pinger.outcomes() == ["success"] * 4


def test_body_becomes_log_and_message_of_failure(pinger: Pinger) -> None:
    pinger.new("backup/start")
    assert pinger.ping("backup/fail", "POST", content="dumping\r\nno space left\n").status_code == 200
    job = pinger.job(1)
    assert [line["message"] for line in job["logs"]] == ["dumping", "no space left"]
    assert (job["error"], job["result"]["message"]) == ("no space left", "no space left")


def test_body_of_start_and_log_are_log_lines(pinger: Pinger) -> None:
    pinger.ping("backup/start?create=1", "POST", content="begin")
    pinger.ping("backup/log", "POST", content="half")
    pinger.ping("backup/log")
    pinger.ping("backup", "POST", content="end")
    assert [line["message"] for line in pinger.job(1)["logs"]] == ["begin", "half", "ping", "end"]


def test_body_over_limit_is_cut_and_says_so(pinger: Pinger) -> None:
    body = b"x" * 150_000 + b"\xff"
    assert pinger.ping("backup?create=1", "POST", content=body).status_code == 201
    kept, notice = (line["message"] for line in pinger.job(1)["logs"])
    assert (kept, notice) == ("x" * 102_400, "[cut: the first 102,400 of 150,001 bytes are kept]")


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "application/x-www-form-urlencoded", "x"])
def test_body_of_any_content_type_is_text(content_type: str, pinger: Pinger) -> None:
    headers = {"Content-Type": content_type}
    assert pinger.ping("backup?create=1", "POST", content=b"{1", headers=headers).status_code == 201
    assert [line["message"] for line in pinger.job(1)["logs"]] == ["{1"]


def test_body_of_get_is_ignored(pinger: Pinger) -> None:
    assert pinger.ping("backup?create=1", "GET", content=b"x").status_code == 201
    assert pinger.job(1)["logs"] == []


def test_log_without_open_run_is_a_note(pinger: Pinger) -> None:
    pinger.new("backup")
    assert pinger.ping("backup/log?node=n1", "POST", content="hello\nyou").status_code == 200
    note = pinger.member.read_log()["events"][-1]
    assert (note["type"], note["key"], note["payload"]["data"]) == (
        ["ping", "log", "n1", "backup"],
        "/ping/backup",
        {"log": ["hello", "you"]},
    )


def test_rid_selects_run_of_overlapping_ones(pinger: Pinger) -> None:
    first, second = str(uuid4()), str(uuid4())
    pinger.new(f"backup/start?rid={first}")
    pinger.ping(f"backup/start?rid={second.upper()}")
    pinger.ping(f"backup/log?rid={first}", "POST", content="of the first")
    pinger.ping(f"backup/fail?rid={first}")
    assert pinger.outcomes() == ["failure", None]
    pinger.ping(f"backup?rid={second}")
    assert pinger.outcomes() == ["failure", "success"]
    assert pinger.job(1)["props"]["rid"] == first
    assert [line["message"] for line in pinger.job(1)["logs"]] == ["of the first"]


def test_started_run_may_be_silent_for_three_days(pinger: Pinger) -> None:
    pinger.new("backup/start")
    pinger.ping("backup")
    pinger.ping("backup")
    assert [pinger.job(number)["props"] for number in (1, 2)] == [{"clean_timeout": "259200"}, {}]
    (finish,) = (
        event for event in pinger.member.read_log()["events"] if event["key"] == "/job/1" and "finish" in event["type"]
    )
    assert finish["payload"]["data"]["props"] == {"clean_timeout": "259200"}


def test_rid_without_open_run_begins_its_own(pinger: Pinger) -> None:
    rid = str(uuid4())
    pinger.new("backup/start")
    pinger.ping(f"backup?rid={rid}")
    assert (pinger.outcomes(), pinger.job(2)["props"]) == ([None, "success"], {"rid": rid})


def test_ping_without_rid_ends_latest_run_without_rid(pinger: Pinger) -> None:
    pinger.new("backup/start")
    pinger.ping("backup/start")
    pinger.ping(f"backup/start?rid={uuid4()}")
    pinger.ping("backup")
    assert pinger.outcomes() == [None, "success", None]


def test_node_selects_run_of_the_node(pinger: Pinger) -> None:
    pinger.new("backup/start?node=n1")
    pinger.ping("backup/start?node=n2")
    pinger.ping("backup?node=n1")
    assert pinger.outcomes() == ["success", None]
    pinger.ping("backup/fail?node=n3")
    assert (pinger.outcomes(), pinger.job(3)["node"]) == (["success", None, "failure"], "n3")


def test_ping_ends_run_of_a_publisher_with_its_fields(pinger: Pinger) -> None:
    fields = {"node": "n1", "type": "backup", "params": {"a": "b"}, "props": {"author": "anna"}}
    planned = {"event": "createJobSet", "node": "n1", "id": 3, "jobs": [{"node": "n1", "type": "backup"}]}
    events = [planned, {"event": "create", "id": 40, "jobset": 3, **fields}]
    assert pinger.member.request("POST", "/events/job", json={"events": events}).status_code == 201
    assert pinger.ping("backup").status_code == 200
    finish, end_of_set = pinger.member.read_log()["events"][-2:]
    assert (finish["key"], finish["type"]) == ("/job/40", ["job", "finish", "n1", "backup"])
    assert {name: finish["payload"]["data"][name] for name in ("params", "props", "jobset")} == {
        "params": fields["params"],
        "props": fields["props"],
        "jobset": 3,
    }
    assert end_of_set["type"][:2] == ["jobset", "finishJobSet"]


def test_new_run_gets_number_after_all_others(pinger: Pinger) -> None:
    create = {"event": "create", "node": "n1", "id": 700, "type": "other"}
    assert pinger.member.request("POST", "/events/job", json=create).status_code == 201
    pinger.new("backup")
    assert pinger.job(701)["type"] == "backup"


def test_name_may_be_any_subtype(pinger: Pinger) -> None:
    assert pinger.new("N%C3%A4chtliches%20backup/start").status_code == 201
    assert pinger.job(1)["type"] == "Nächtliches backup"
    assert pinger.ping("start/start?create=1").status_code == 201
    assert pinger.ping("start").status_code == 200
    assert pinger.job(2)["outcome"] == "success"


@pytest.mark.parametrize(
    "name",
    ["jobType", "job", "a|b", "a,b", "a:b", "%2541", "%20", ".", "..", "a%5Cb", "%23", "a&b", "a;b", "%E2%80%AE", "~"],
)
def test_run_of_odd_name_is_found_again(name: str, pinger: Pinger) -> None:
    name = quote(unquote(name), safe="").replace(".", "%2E")
    assert pinger.ping(f"{name}/start?create=1").status_code == 201
    assert pinger.ping(name).status_code == 200
    assert pinger.outcomes() == ["success"]


def test_curl_sends_pings(pinger: Pinger) -> None:
    curl, url = shutil.which("curl"), f"{pinger.member.server.url}/ping/{pinger.key}/backup"
    assert curl is not None

    def run(*arguments: str) -> str:
        command = [curl, "-fsS", "--noproxy", "*", "-m", str(TIMEOUT_S), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert run(f"{url}/start?create=1") == "Created"
    assert run("--data-raw", "first\nlast", f"{url}/5") == "OK"
    assert run("-I", url).startswith("HTTP/1.1 200 OK")
    assert run("-X", "POST", url) == "OK"
    assert pinger.outcomes() == ["failure", "success", "success"]
    assert pinger.job(1)["error"] == "last"
