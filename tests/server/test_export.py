"""`make export`: the file format, complete exports only, limited memory, and each commit once."""

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chalicelib.domain.exports.export import EXPORTS_FOLDER
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from infra.server.commands.export import export
from infra.server.commands.export_folder import ExportFolder
from tests.builders import a_commit, a_text, incompressible_text
from tests.server.export_reader import read_commits, read_exports
from tests.serving import ROOT, Server

MEGABYTE = 1024 * 1024


@pytest.fixture
def components(tmp_path: Path) -> Iterator[Components]:
    """A log with the organizations acme (1) and other (2)."""
    components = build_local(Settings.from_environment({"DATA_DIR": str(tmp_path)}))
    for name in ("acme", "other"):
        components.log.organizations.create(name)
    yield components
    components.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "exports"


def append(components: Components, server: int, first: int, last: int, **how: Any) -> None:
    commits = [a_commit(session=n, server=server, request_id=f"r{n}", **how) for n in range(first, last + 1)]
    components.stores.log.append(commits)


def run(data_dir: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `make export`."""
    return subprocess.run(
        [sys.executable, "-m", "infra.server.commands.export", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(data_dir), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_manifests_describe_full_and_incremental_exports(components: Components, root: Path) -> None:
    folder = ExportFolder(root, lambda: 1_700_000_000_000)
    append(components, 1, 1, 3)
    append(components, 2, 1, 1)
    (full,) = export(components, folder)
    append(components, 2, 2, 3)
    (incremental,) = export(components, folder)
    first, second = read_exports(root)
    assert (first.commits, second.commits) == ([(1, 1), (1, 2), (1, 3), (2, 1)], [(2, 2), (2, 3)])
    common = {
        "tableArn": "arn:aws:dynamodb:local:000000000000:table/annals-log",
        "tableId": "annals-log",
        "endTime": "2023-11-14T22:13:20.000Z",
        "s3Bucket": "exports",
        "s3Prefix": None,
        "s3SseAlgorithm": None,
        "s3SseKmsKeyId": None,
        "outputFormat": "DYNAMODB_JSON",
    }
    times = [second.summary["exportFromTime"], second.summary["exportToTime"]]
    assert first.summary == common | {
        "version": "2020-06-30",
        "exportArn": f"{common['tableArn']}/export/{full.export.id}",
        "startTime": times[0],
        "exportTime": times[0],
        "manifestFilesS3Key": f"AWSDynamoDB/{full.export.id}/manifest-files.json",
        "billedSizeBytes": _size(full.path),
        "itemCount": 4,
        "exportType": "FULL_EXPORT",
    }
    assert second.summary == common | {
        "version": "2023-08-01",
        "exportArn": f"{common['tableArn']}/export/{incremental.export.id}",
        "startTime": times[1],
        "exportFromTime": times[0],
        "exportToTime": times[1],
        "manifestFilesS3Key": f"AWSDynamoDB/{incremental.export.id}/manifest-files.json",
        "billedSizeBytes": _size(incremental.path),
        "itemCount": 2,
        "outputView": "NEW_IMAGE",
        "exportType": "INCREMENTAL_EXPORT",
    }
    assert times[0] < times[1]
    assert all(re.fullmatch(r"[0-9]{14}-[0-9a-f]{8}", one.export.id) for one in (full, incremental))


def test_data_files_have_limited_size(components: Components, root: Path) -> None:
    append(components, 1, 1, 100, texts=(a_text(incompressible_text(900)),))
    export(components, ExportFolder(root, components.clock, file_bytes=10_000))
    (found,) = read_exports(root)
    counts = [file["itemCount"] for file in found.files]
    assert (sum(counts), len(counts) > 5, max(counts) <= 10) == (100, True, True)
    assert found.commits == [(1, session) for session in range(1, 101)]


def test_export_empty_log_is_empty_and_then_nothing(components: Components, root: Path) -> None:
    folder = ExportFolder(root, components.clock)
    assert [one.items for one in export(components, folder)] == [0]
    assert export(components, folder) == []
    assert [found.commits for found in read_exports(root)] == [[]]


def test_command_exports_all_then_only_new_commits(components: Components, tmp_path: Path) -> None:
    append(components, 1, 1, 50)
    assert re.fullmatch(
        r"(Exporting: \d+ of 50 commits\n)+A full export of 50 commits: .*/exports/AWSDynamoDB/\S+\n",
        run(tmp_path).stdout,
    )
    append(components, 1, 51, 51)
    assert re.search(r"An incremental export of 1 commits: ", run(tmp_path).stdout)
    assert run(tmp_path).stdout == "There are no new commits since the last export.\n"
    assert read_commits(tmp_path / "exports") == [(1, session) for session in range(1, 52)]
    assert "A full export of 51 commits" in run(tmp_path, "--full").stdout


def test_export_dir_sets_the_folder(components: Components, tmp_path: Path) -> None:
    append(components, 1, 1, 2)
    run(tmp_path, EXPORT_DIR=str(tmp_path / "elsewhere"))
    assert (read_commits(tmp_path / "elsewhere"), (tmp_path / "exports").exists()) == ([(1, 1), (1, 2)], False)


def test_concurrent_export_is_refused(components: Components, tmp_path: Path, root: Path) -> None:
    append(components, 1, 1, 2)
    root.mkdir()
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = run(tmp_path)
    assert (refused.returncode, refused.stderr) == (
        1,
        f"The log cannot be exported: another export to {root} is running\n",
    )
    assert read_commits(root) == []


def test_export_to_folder_of_another_log_is_refused(components: Components, tmp_path: Path, root: Path) -> None:
    append(components, 1, 1, 5)
    export(components, ExportFolder(root, components.clock))
    other = build_local(Settings.from_environment({"DATA_DIR": str(tmp_path / "other")}))
    other.log.organizations.create("acme")
    append(other, 1, 1, 4)
    other.close()
    refused = run(tmp_path / "other", EXPORT_DIR=str(root))
    assert (refused.returncode, "of another log" in refused.stderr) == (1, True)
    assert len(read_exports(root)) == 1


def test_exports_during_appends_contain_each_commit_once(server: Server) -> None:
    """Publishers append during several exports. The last export runs after them."""
    member, root = server.organization(), server.data_dir / "exports"
    number = member.create()

    def publish(count: int) -> None:
        for _ in range(count):
            member.publish("job/started", "job/ended")

    with ThreadPoolExecutor(4) as crew:
        publishers = [crew.submit(publish, 60) for _ in range(4)]
        rounds = 0
        while rounds < 3 or not all(publisher.done() for publisher in publishers):
            assert run(server.data_dir).returncode == 0
            rounds += 1
        for publisher in publishers:
            publisher.result()
    assert run(server.data_dir).returncode == 0
    ours = [commit for commit in read_commits(root) if commit[0] == number]
    assert ours == [(number, session) for session in range(1, 241)]


def test_export_killed_at_any_step_is_complete_or_absent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.export_killer", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    attempts = [
        (step, [tuple(commit) for commit in commits]) for step, commits in map(json.loads, done.stdout.splitlines())
    ]
    before, half, whole = ([(1, session) for session in range(1, last + 1)] for last in (0, 30, 60))
    assert {len(commits) for _, commits in attempts} == {0, 30, 60}
    assert all(commits in (before, half, whole) for _, commits in attempts)
    assert [len(commits) for step, commits in attempts if step == 0] == [30, 60]
    assert len(attempts) > 40
    assert [path.name for path in sorted((tmp_path / "exports").iterdir())] == [
        ".lock",
        ".unfinished",
        EXPORTS_FOLDER,
        "ledger.json",
    ]


def test_export_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """30 megabytes more of commits take less than 15 megabytes more."""
    peaks = [_peak_memory_bytes(tmp_path / name, commits) for name, commits in (("little", 64), ("much", 320))]
    assert peaks[1] - peaks[0] < 15 * MEGABYTE


def _peak_memory_bytes(data_dir: Path, commits: int) -> int:
    """Peak memory of an export of commits of 120 kilobytes each."""
    components = build_local(Settings.from_environment({"DATA_DIR": str(data_dir)}))
    components.log.organizations.create("acme")
    texts = (a_text(incompressible_text(120_000)),)
    for first in range(1, commits + 1, 32):
        append(components, 1, first, first + 31, texts=texts)
    components.close()
    script = (
        "import resource, runpy, sys; sys.argv = ['export']; "
        "runpy.run_module('infra.server.commands.export', run_name='__main__'); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(data_dir)},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout.splitlines()[-1]) * 1024


def _size(export_path: Path) -> int:
    return sum(file.stat().st_size for file in (export_path / "data").iterdir())
