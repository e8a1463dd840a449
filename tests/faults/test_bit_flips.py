"""Single bits that flip in the files: detected, healed or harmless, and no answer is false."""

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.outbox_table import PARKED, SENT
from chalicelib.domain.errors import AnnalsError, ViewsReset
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import checkpoints_view
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.reading.latest import latest
from chalicelib.wiring import Components
from infra.server.commands.check.data_directory import check
from infra.server.commands.check.findings import LOG, OUTBOX, VIEWS, Finding, Report
from infra.server.processes.delivery_worker import DeliveryWorker
from infra.server.startup import check_checkpoints, rewind_consumers
from tests.adapters.channels.queues import FakeDeliverer, a_delivery
from tests.faults.damage import ACME, COMMITS, OTHER, build_components, catch_up_all
from tests.notifications.fake_channels import eventually

FLIPS = 200
ROW_HEADER_BYTES = 36
"""At least: size and place of the row, the types of its columns, and the values before the request id."""
DELIVERIES = [
    a_delivery(session, key=f"/job/{session % 9}", observer=observer)
    for session in range(1, COMMITS + 1)
    for observer in ("ops", "dev")
]


def flips(path: Path, seed: int) -> Iterator[tuple[int, bytes]]:
    """Copies of the file, each with one flipped bit, and its position."""
    content, chance = path.read_bytes(), random.Random(seed)
    for _ in range(FLIPS):
        position = chance.randrange(len(content) * 8)
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        yield position, bytes(damaged)


def replace(path: Path, content: bytes) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(content)


def findings(data_dir: Path, file: str) -> list[Finding]:
    return [finding for finding in check(data_dir, Report(), lambda _: None) if finding.file == file]


def answers_from_views(components: Components) -> list[Any]:
    """The events of each key and of a type, and the last event of each type."""
    reader, answers = components.log.reader, list[Any]()
    by_type = Selection(types=(("job", "?"),))
    for server in (ACME, OTHER):
        for selection in (by_type, *(Selection(keys=(f"/job/{n}",)) for n in range(7))):
            commits = reader.commits_before(reader.log.head(server), selection)
            answers.append([event.id for commit in commits for event in commit.events if selection.selects(event)])
        answers.append(latest([server], by_type, reader, components.log.retention, 10))
    return answers


def commits_in_log(components: Components) -> dict[tuple[int, int], Commit]:
    """All commits that can be read, by server and session."""
    log, commits = components.stores.log, dict[tuple[int, int], Commit]()
    for server in (ACME, OTHER):
        for session in range(COMMITS + 2):
            with suppress(AnnalsError):
                if (commit := log.commit(server, session)) is not None:
                    commits[server, session] = commit
        with suppress(AnnalsError):
            commits |= {(server, commit.session): commit for commit in log.read(server, 0)}
    return commits


def test_flipped_bits_in_log_are_never_served(data_dir: Path) -> None:
    with closing(build_components(data_dir)) as components:
        expected = commits_in_log(components)
    assert len(expected) == 2 * COMMITS
    detected = 0
    for position, content in flips(data_dir / LOG, seed=3):
        replace(data_dir / LOG, content)
        is_detected = bool(findings(data_dir, LOG))
        detected += is_detected
        served: dict[tuple[int, int], Commit] = {}
        with suppress(AnnalsError), closing(build_components(data_dir)) as components:
            served = commits_in_log(components)
        assert all(expected.get(place) == commit for place, commit in served.items()), position
        assert is_detected or served == expected, position
    assert detected > FLIPS / 2, detected


def test_flipped_bits_in_types_of_columns_are_never_served(data_dir: Path) -> None:
    """The row says what type and length each value has."""
    with closing(build_components(data_dir)) as components:
        expected = commits_in_log(components)
    content = (data_dir / LOG).read_bytes()
    request_id = content.index(expected[ACME, 30].request_id.encode() + b"[")
    for position in range((request_id - ROW_HEADER_BYTES) * 8, request_id * 8):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        replace(data_dir / LOG, bytes(damaged))
        with suppress(AnnalsError), closing(build_components(data_dir)) as components:
            served = commits_in_log(components)
            assert all(expected.get(place) == commit for place, commit in served.items()), position


def test_flipped_bits_in_views_change_no_answer(data_dir: Path) -> None:
    with closing(build_components(data_dir)) as components:
        expected = answers_from_views(components)
    assert [len(answer) for answer in expected[1:4]] == [9, 9, 9]
    for position, content in flips(data_dir / VIEWS, seed=1):
        replace(data_dir / VIEWS, content)
        assert findings(data_dir, VIEWS), position
        with closing(build_components(data_dir)) as components:
            rewind_consumers(components)
            assert answers_from_views(components) == expected, position
            with suppress(ViewsReset):
                catch_up_all(components)
            catch_up_all(components)
            assert answers_from_views(components) == expected, position


def test_flipped_bits_in_keys_of_views_change_no_answer(data_dir: Path) -> None:
    """The record is not found under its key. No checksum of a record shows that."""
    with closing(build_components(data_dir)) as components:
        expected = answers_from_views(components)
    content, key = (data_dir / VIEWS).read_bytes(), b"/job/3"
    positions = [match.end() - 1 for match in re.finditer(re.escape(key), content)]
    assert len(positions) == 2
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << 6
        replace(data_dir / VIEWS, bytes(damaged))
        with closing(build_components(data_dir)) as components:
            assert answers_from_views(components) == expected, position


@dataclass
class Delivered:
    """All that leaves an outbox. Equal if nothing is lost, repeated or changed."""

    sent: list[Delivery]
    parked: list[Delivery]
    checkpoints: list[Any]

    def is_part_of(self, other: "Delivered") -> bool:
        """Whether nothing is repeated or changed."""
        return self.sent == [one for one in other.sent if one in self.sent] and all(
            one in other.parked for one in self.parked
        )


def deliver_all(data_dir: Path) -> Delivered:
    """Start a server on the directory and deliver everything."""
    with closing(build_components(data_dir)) as components:
        check_checkpoints(components)
        rewind_consumers(components)
        outbox, deliverer = cast(SqliteOutbox, components.stores.outbox), FakeDeliverer()
        outbox.repair_order()
        worker = DeliveryWorker(outbox, cast(Deliverer, deliverer))
        try:
            worker.poll()
            eventually(lambda: not worker._busy)
        finally:
            worker.stop()
        parked = [one.delivery for observer in ("ops", "dev") for one in outbox.parked(1, observer, "", 1_000)]
        progress = components.stores.progress
        checkpoints = [progress.get(checkpoints_view(server), ["observe"]) for server in (ACME, OTHER)]
        sent = sorted(deliverer.sent, key=lambda delivery: (delivery.observer, delivery.event))
        return Delivered(sent, parked, checkpoints)


@pytest.fixture(name="outbox_dir")
def fixture_outbox_dir(data_dir: Path) -> Path:
    """A data directory with waiting, parked and sent deliveries."""
    with closing(build_components(data_dir)) as components:
        outbox = cast(SqliteOutbox, components.stores.outbox)
        outbox.put(DELIVERIES)
        for n in range(1, len(DELIVERIES), 5):
            outbox.record_outcome(n, PARKED, n, "no such user")
        for n in range(2, len(DELIVERIES), 5):
            outbox.record_outcome(n, SENT, n)
    return data_dir


def test_flipped_bits_in_outbox_change_no_message(outbox_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(outbox_dir, tmp_path / "undamaged")
    expected = deliver_all(tmp_path / "undamaged")
    assert (len(expected.sent), len(expected.parked)) == (72, 24)
    detected = 0
    for position, content in flips(outbox_dir / OUTBOX, seed=2):
        replace(outbox_dir / OUTBOX, content)
        found = findings(outbox_dir, OUTBOX)
        detected += bool(found)
        try:
            delivered = deliver_all(outbox_dir)
        except AnnalsError:
            assert found, position
            continue
        assert delivered.is_part_of(expected), position
        assert found or delivered == expected, position
    assert detected > FLIPS / 4
