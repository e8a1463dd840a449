"""A store that does not answer: appends wait until their deadline, and reads do not wait."""

import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from tests.serving import Member, Server, run_server

pytestmark = pytest.mark.serial

MAX_READ_S = 2.0
"""Much less than the ten seconds for which appends wait."""
STALL_S = 2.0
"""After this time the server refuses new appends."""


@pytest.fixture(scope="module", name="victim")
def fixture_victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("victim")) as server:
        yield server


@contextmanager
def lock_database(data_dir: Path) -> Iterator[None]:
    """Hold the write lock of the log, like a slow process."""
    with closing(apsw.Connection(str(data_dir / "annals.sqlite"))) as other:
        other.set_busy_timeout(int(STALL_S * 1000))
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def append(member: Member, *types: str) -> int:
    return member.post({"events": [{"type": [type_]} for type_ in types]}).status_code


def types_of(member: Member) -> list[str]:
    return [event["type"][0] for event in member.read_log()["events"]]


def test_locked_store_serves_reads_and_writes_later_once(victim: Server) -> None:
    member = victim.organization()
    member.publish("before")
    with ThreadPoolExecutor(4) as pool:
        with lock_database(victim.data_dir):
            late = [pool.submit(append, member, f"late-{number}") for number in range(4)]
            assert not any(answer.done() for answer in late)
            threading.Event().wait(STALL_S)
            began = time.monotonic()
            assert member.get("/health").status_code == 200
            assert types_of(member) == ["before"]
            refused = member.post({"events": [{"type": ["refused"]}]})
            assert time.monotonic() - began < MAX_READ_S
        assert [answer.result() for answer in late] == [201] * 4
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert refused.json()["detail"] == "the store is slow to answer; nothing was written"
    assert sorted(types_of(member)) == ["before", *(f"late-{number}" for number in range(4))]
    assert append(member, "after") == 201


def test_append_that_fails_for_a_while_is_written_once(victim: Server) -> None:
    """The file may not grow: every write fails, and its outcome is unknown."""
    member = victim.organization()
    member.publish("before")
    size = (victim.data_dir / "annals.sqlite-wal").stat().st_size
    unlimited = resource.prlimit(victim.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        with ThreadPoolExecutor(1) as pool:
            payload = {"type": "json", "data": "x" * 50_000}
            failing = pool.submit(member.post, {"events": [{"type": ["large"], "payload": payload}]})
            threading.Event().wait(STALL_S)
            began = time.monotonic()
            assert types_of(member) == ["before"]
            assert time.monotonic() - began < MAX_READ_S
            assert not failing.done()
            resource.prlimit(victim.process.pid, resource.RLIMIT_FSIZE, unlimited)
            assert failing.result().status_code == 201
    finally:
        resource.prlimit(victim.process.pid, resource.RLIMIT_FSIZE, unlimited)
    assert types_of(member) == ["before", "large"]
