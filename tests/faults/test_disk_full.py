"""A disk without space: appends are refused at once, reads go on, and with space all goes on without a restart."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.settings import Settings
from chalicelib.wiring import embedded
from tests.builders import a_commit, a_text, noise
from tests.faults.disks import Disk, disk
from tests.notifications.outside import eventually
from tests.serving import PATIENCE_S, ROOT, Member, serving

AT_ONCE_S = 3.0
"""Refused without trying on for the ten seconds that a request has; on a machine that others load too."""
LARGE = {"type": "json", "data": "x" * 20_000}


@pytest.fixture(name="small")
def a_small_disk(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path / "small", 6) as mounted:
        yield mounted


def append_until_refused(member: Member) -> tuple[list[dict[str, Any]], Any]:
    """What was acknowledged until the first that was not, and that answer."""
    acknowledged: list[dict[str, Any]] = []
    while True:
        number = len(acknowledged)
        answer = member.post(
            {"events": [{"type": ["n", str(number)], "payload": LARGE}]}, **{"Idempotency-Key": f"k{number}"}
        )
        if answer.status_code != 201:
            return acknowledged, answer
        acknowledged += answer.json()["events"]


def test_a_full_disk_refuses_appends_and_nothing_else(small: Disk) -> None:
    with serving(small.path / "data") as server:
        member = server.organization()
        member.ask("PUT", "/observers/told", json={"channel": "app", "types": ["*"], "config": {"to": "anna"}})
        small.fill(leave=1024 * 1024)
        acknowledged, refused = append_until_refused(member)
        began = time.monotonic()
        again = [member.post({"events": [{"type": ["no"], "payload": LARGE}]}) for _ in range(5)]
        assert time.monotonic() - began < AT_ONCE_S
        assert {answer.status_code for answer in (refused, *again)} == {503}
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert refused.headers["Retry-After"] == "5"
        assert refused.json()["detail"] == "the disk is full: annals.sqlite cannot grow, and nothing was written"
        assert member.stored()["events"] == acknowledged
        assert member.get("/health").status_code == 200
        assert member.get("/events", params={"limit": -1, "types": "n/*"}).json()["eventSnapshots"] == acknowledged[-1:]

        small.clear()
        number = len(acknowledged)
        body = {"events": [{"type": ["n", str(number)], "payload": LARGE}]}
        granted = member.post(body, **{"Idempotency-Key": f"k{number}"})
        assert granted.status_code == 201
        acknowledged += granted.json()["events"]
        assert member.stored()["events"] == acknowledged
        # Those beside the server survived, too, and catch up: all is told once, in order.
        inbox = eventually(
            lambda: member.get("/users/anna/inbox", params={"after": 0}).json().get("eventSnapshots", []),
            lambda told: len(told) == len(acknowledged),
        )
        assert [one["event"]["session"] for one in inbox] == [one["id"]["session"] for one in acknowledged]
        caught_up = eventually(lambda: _behind(member), lambda behind: behind == [0, 0])
        assert caught_up == [0, 0]


def test_a_checkpoint_that_finds_no_space_costs_nothing(small: Disk) -> None:
    """The log's latest pages stay where they are, and go to their place when there is space."""
    data = small.path / "data"
    with serving(data) as server:
        member = server.organization()
        small.fill(leave=(small.free - 200_000) // 2)
        acknowledged, _ = append_until_refused(member)
        assert (data / "annals.sqlite-wal").stat().st_size > 4 * (data / "annals.sqlite").stat().st_size
        server.process.kill()
        server.exit_code()
    with serving(data) as server:
        member = server.member(*member.organizations)
        assert member.stored()["events"] == acknowledged
        assert member.post({"events": [{"type": ["no"], "payload": LARGE}]}).status_code == 503
        small.clear()
        assert member.post({"events": [{"type": ["n"], "payload": LARGE}]}).status_code == 201


def test_an_export_without_space_says_so_and_leaves_nothing(small: Disk, tmp_path: Path) -> None:
    data, exports = tmp_path / "data", small.path / "exports"
    parts = embedded(Settings.from_environment({"DATA_DIR": str(data)}))
    parts.organizations.create("acme")
    parts.log.append([a_commit(session, texts=(a_text(noise(9_000, session)),)) for session in range(1, 41)], [], 0)
    parts.close()
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
        timeout=PATIENCE_S,
    )


def _behind(member: Member) -> list[int]:
    return [consumer["behind"] for consumer in member.get("/system").json()["consumers"]]
