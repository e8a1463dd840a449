"""The bounds of the buffer and of the spool."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annals_client.run import output, spool, spooled_run
from annals_client.run.lines import DROPPED, Record, count_lines, count_of, decode, encode
from annals_client.run.output import OutputBuffer
from annals_client.run.recorder import RecordReader
from annals_client.run.spool import Spool
from annals_client.run.spooled_run import Description, SpooledRun

NOW = int(time.time())
DESCRIPTION: Description = {
    "url": "http://127.0.0.1:1",
    "organization": "acme",
    "id": None,
    "name": "backup",
    "node": "n1",
    "params": {},
    "props": {},
    "startedAt": NOW,
}


@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("ab\n", min_size=1, max_size=30), st.booleans()),
        max_size=40,
    ),
    max_bytes=st.integers(30, 90),
    max_lines=st.integers(1, 10),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_buffer_reports_or_counts_every_line(
    pieces: list[tuple[str, str, bool]], max_bytes: int, max_lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is reported unchanged and in order, or it is counted."""
    monkeypatch.setattr(output, "MAX_BUFFERED_BYTES", max_bytes)
    monkeypatch.setattr(output, "MAX_BUFFERED_LINES", max_lines)
    buffer = OutputBuffer()
    reader = RecordReader(buffer)
    written: dict[str, str] = {"stdout": "", "stderr": ""}
    records: list[Record] = []
    for stream, text, is_read in pieces:
        written[stream] += text
        buffer.feed(stream, text.encode())
        if is_read and (record := reader.next()) is not None:
            records.append(record)
    records += reader.rest(NOW)
    for stream, text in written.items():
        lines = iter(text.split("\n"))
        assert all(str(line) in lines for _, of, line in records if of == stream)
    total = sum(text.count("\n") for text in written.values())
    partial = sum(not text.endswith("\n") for text in written.values() if text)
    assert sum(map(count_of, records)) == total + partial


def test_buffer_keeps_the_last_lines() -> None:
    buffer = OutputBuffer()
    for start in range(0, 1_000_000, 10_000):
        buffer.feed("stdout", b"".join(b"%d\n" % number for number in range(start, start + 10_000)))
    records = list(RecordReader(buffer).rest(NOW))
    kept = [record[2] for record in records if record[1] == "stdout"]
    assert sum(map(count_of, records)) == 1_000_000
    assert kept == [str(number) for number in range(1_000_000 - len(kept), 1_000_000)]
    assert len(kept) == output.MAX_BUFFERED_LINES - 1


def test_last_line_skips_blank_lines() -> None:
    buffer = OutputBuffer()
    buffer.feed("stderr", b"first\n" + b"x" * 20_000 + b"\nthe end\r\n \n\n")
    assert (buffer.last_line("stderr"), buffer.last_line("stdout")) == ("the end", "")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[SpooledRun]:
    created = Spool(tmp_path).create_run(DESCRIPTION)
    yield created
    created.release()


def test_output_beyond_the_limit_is_counted(run: SpooledRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooled_run, "MAX_OUTPUT_BYTES", 300_000)
    monkeypatch.setattr(spooled_run, "MAX_BATCH_BYTES", 20_000)
    lines: list[Record] = [(NOW, "stdout", f"{number} {'x' * 100}") for number in range(20_000)]
    _append(run, lines)
    batches = list(_batches(run))
    records = [record for records in batches for record in records]
    assert run.size() < 400_000
    assert records[0][:2] == (batches[0][0][0], DROPPED)
    assert (len(batches[0]), sum(map(count_of, records))) == (1, 20_000)
    assert records[1:] == lines[-len(records) + 1 :]


def test_number_of_batches_is_limited(run: SpooledRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooled_run, "MAX_BATCHES", 3)
    _append(run, [(NOW, "stdout", str(number)) for number in range(5000)])
    batches = list(_batches(run))
    assert [len(records) for records in batches] == [1, 500, 500]
    assert batches[0][0][1:] == (DROPPED, 4000)


def test_claimed_batch_is_never_dropped(run: SpooledRun) -> None:
    _append(run, [(NOW, "stdout", str(number)) for number in range(2000)])
    claimed = run.claim_batch()
    run.limit_output(max_bytes=0, max_batches=1)
    assert claimed is not None
    assert claimed == run.claim_batch()
    assert [record[2] for record in claimed.records] == [str(number) for number in range(500)]
    run.remove_batch(claimed.number)
    assert [records[0][1:] for records in _batches(run)] == [(DROPPED, 1500)]


def test_torn_line_is_skipped(run: SpooledRun) -> None:
    complete = encode((NOW, "stdout", "one"))
    (run.path / "output-000001.part").write_bytes(complete + complete[:5])
    run.recover("killed")
    claimed = run.claim_batch()
    assert claimed is not None
    assert claimed.records == ((NOW, "stdout", "one"),)
    assert (decode(b"[1"), count_lines(complete * 3)) == (None, 3)


def test_prune_removes_old_runs(tmp_path: Path) -> None:
    folder = Spool(tmp_path)
    runs = [folder.create_run(DESCRIPTION) for _ in range(3)]
    _age(runs[0])
    _age(runs[1])
    assert folder.prune() == 0  # They are active.
    for created in runs:
        created.release()
    _age(runs[0])
    assert folder.prune() == 2
    assert [left.path for left in folder.runs()] == [runs[2].path]


def test_prune_removes_the_oldest_surplus_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_RUNS", 3)
    folder = Spool(tmp_path)
    runs = [_ended(folder) for _ in range(5)]
    assert folder.prune() == 2
    assert [left.path for left in folder.runs()] == [created.path for created in runs[2:]]


def test_prune_drops_output_before_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Spool(tmp_path)
    runs = [_ended(folder, lines=400) for _ in range(3)]
    monkeypatch.setattr(spool, "MAX_BYTES", sum(created.size() for created in runs) - 10_000)
    assert folder.prune() == 0
    counts = [[record[1:] for records in _batches(created) for record in records] for created in folder.runs()]
    assert (counts[0], [len(records) for records in counts[1:]]) == ([(DROPPED, 400)], [400, 400])
    assert all(created.finished() is not None for created in folder.runs())


def test_spool_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Spool(tmp_path)
    _ended(folder)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert folder.runs() == []
    with pytest.raises(PermissionError, match="belongs to another user"):
        folder.create_run(DESCRIPTION)


def _append(run: SpooledRun, records: list[Record]) -> None:
    rest = iter(records)
    while run.append(lambda: next(rest, None)):
        run.close_batch()
    run.close_batch()


def _batches(run: SpooledRun) -> Iterator[tuple[Record, ...]]:
    while (batch := run.claim_batch()) is not None:
        yield batch.records
        run.remove_batch(batch.number)


def _ended(folder: Spool, lines: int = 0) -> SpooledRun:
    created = folder.create_run(DESCRIPTION)
    _append(created, [(NOW, "stdout", f"{number:050}") for number in range(lines)])
    created.finish({"time": NOW, "isSuccess": True, "message": "exit code 0"})
    created.release()
    return created


def _age(run: SpooledRun) -> None:
    os.utime(run.path / "owner.lock", (1, 1))
