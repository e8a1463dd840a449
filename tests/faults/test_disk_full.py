"""A full disk: appends are refused at once, reads work, and with free space appends work without a restart."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.settings import Settings
from chalicelib.wiring import build_local
from tests.builders import a_commit, a_text, incompressible_text
from tests.faults.disks import SmallDisk, mount_small_disk
from tests.notifications.fake_channels import eventually
from tests.serving import ROOT, TIMEOUT_S, Member, run_server

MAX_REFUSAL_S = 3.0
"""Much less than the ten seconds for which an append is retried."""
LARGE = {"type": "json", "data": "x" * 20_000}


@pytest.fixture(name="small")
def fixture_small(tmp_path: Path) -> Iterator[SmallDisk]:
    with mount_small_disk(tmp_path / "small", 6) as mounted:
        yield mounted


def append_until_refused(member: Member) -> tuple[list[dict[str, Any]], Any]:
    """The acknowledged events and the first refusal."""
    acknowledged: list[dict[str, Any]] = []
    while True:
        number = len(acknowledged)
        answer = member.post(
            {"events": [{"type": ["n", str(number)], "payload": LARGE}]}, **{"Idempotency-Key": f"k{number}"}
        )
        if answer.status_code != 201:
            return acknowledged, answer
        acknowledged += answer.json()["events"]


def test_full_disk_refuses_appends_and_serves_reads(small: SmallDisk) -> None:
    with run_server(small.path / "data") as server:
        member = server.organization()
        member.request("PUT", "/observers/inbox", json={"channel": "app", "types": ["*"], "config": {"to": "anna"}})
        small.fill(leave=1024 * 1024)
        acknowledged, refused = append_until_refused(member)
        began = time.monotonic()
        again = [member.post({"events": [{"type": ["no"], "payload": LARGE}]}) for _ in range(5)]
        assert time.monotonic() - began < MAX_REFUSAL_S
        assert {answer.status_code for answer in (refused, *again)} == {503}
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert refused.headers["Retry-After"] == "5"
        assert refused.json()["detail"] == "the disk is full: annals.sqlite cannot grow, and nothing was written"
        assert member.read_log()["events"] == acknowledged
        assert member.get("/health").status_code == 200
        assert member.get("/events", params={"limit": -1, "types": "n/*"}).json()["eventSnapshots"] == acknowledged[-1:]

        small.clear()
        number = len(acknowledged)
        body = {"events": [{"type": ["n", str(number)], "payload": LARGE}]}
        granted = member.post(body, **{"Idempotency-Key": f"k{number}"})
        assert granted.status_code == 201
        acknowledged += granted.json()["events"]
        assert member.read_log()["events"] == acknowledged
        # The worker processes have survived and catch up: each event is delivered once, in order.
        inbox = eventually(
            lambda: member.get("/users/anna/inbox", params={"after": 0}).json().get("eventSnapshots", []),
            lambda messages: len(messages) == len(acknowledged),
        )
        assert [message["event"]["session"] for message in inbox] == [event["id"]["session"] for event in acknowledged]
        caught_up = eventually(lambda: _consumer_lags(member), lambda lags: lags == [0, 0])
        assert caught_up == [0, 0]


def test_wal_checkpoint_without_space_loses_nothing(small: SmallDisk) -> None:
    """The latest pages stay in the write-ahead log until there is space."""
    data = small.path / "data"
    with run_server(data) as server:
        member = server.organization()
        small.fill(leave=(small.free_bytes - 200_000) // 2)
        acknowledged, _ = append_until_refused(member)
        assert (data / "annals.sqlite-wal").stat().st_size > 4 * (data / "annals.sqlite").stat().st_size
        server.process.kill()
        server.exit_code()
    with run_server(data) as server:
        member = server.member(*member.organizations)
        assert member.read_log()["events"] == acknowledged
        assert member.post({"events": [{"type": ["no"], "payload": LARGE}]}).status_code == 503
        small.clear()
        assert member.post({"events": [{"type": ["n"], "payload": LARGE}]}).status_code == 201


def test_export_without_space_fails_and_leaves_no_files(small: SmallDisk, tmp_path: Path) -> None:
    data, exports = tmp_path / "data", small.path / "exports"
    components = build_local(Settings.from_environment({"DATA_DIR": str(data)}))
    components.log.organizations.create("acme")
    components.stores.log.append(
        [a_commit(session, texts=(a_text(incompressible_text(9_000, session)),)) for session in range(1, 41)]
    )
    components.close()
    small.fill(leave=64 * 1024)
    refused = export(data, exports)
    assert refused.returncode == 1
    assert refused.stderr.startswith("The log cannot be exported: ")
    assert "No space left on device" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert {path.name for path in exports.rglob("*") if path.is_file()} == {".lock", "ledger.json"}
    small.clear()
    done = export(data, exports)
    assert done.returncode == 0, done.stderr
    assert "A full export of 40 commits" in done.stdout


def export(data: Path, exports: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "infra.server.commands.export"],
        cwd=ROOT,
        env={"DATA_DIR": str(data), "EXPORT_DIR": str(exports), "JWT_KEY": "k" * 32},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def _consumer_lags(member: Member) -> list[int]:
    return [consumer["behind"] for consumer in member.get("/system").json()["consumers"]]
