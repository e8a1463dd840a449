"""A store that does not answer: whoever appends waits until their deadline, and whoever reads does not wait at all."""

import resource
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving import Member, Server, serving

AT_ONCE_S = 2.0
"""Reads take no longer; what they must not wait for takes ten seconds."""
SLOW_S = 2.0
"""By then it is clear that the store does not answer."""


@pytest.fixture(scope="module", name="victim")
def a_server_to_be_treated_badly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("victim")) as server:
        yield server


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """The log while another process writes to it, and takes its time."""
    with sqlite3.connect(data_dir / "annals.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    other.close()


def append(member: Member, *types: str) -> int:
    return member.post({"events": [{"type": [type_]} for type_ in types]}).status_code


def types_of(member: Member) -> list[str]:
    return [event["type"][0] for event in member.stored()["events"]]


def test_reads_go_on_while_a_write_waits_and_the_write_is_done_once(victim: Server) -> None:
    member = victim.organization()
    member.publish("before")
    with ThreadPoolExecutor(4) as pool:
        with locked(victim.data_dir):
            late = [pool.submit(append, member, f"late-{number}") for number in range(4)]
            assert not any(answer.done() for answer in late)
            threading.Event().wait(SLOW_S)
            began = time.monotonic()
            assert member.get("/health").status_code == 200
            assert types_of(member) == ["before"]
            refused = member.post({"events": [{"type": ["refused"]}]})
            assert time.monotonic() - began < AT_ONCE_S
        assert [answer.result() for answer in late] == [201] * 4
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert refused.json()["detail"] == "the store is slow to answer; nothing was written"
    assert sorted(types_of(member)) == ["before", *(f"late-{number}" for number in range(4))]
    assert append(member, "after") == 201


def test_a_write_that_fails_for_a_while_is_done_once_when_it_can_be(victim: Server) -> None:
    """A file that may not grow: every write fails, and nobody can tell whether a part of it got through."""
    member = victim.organization()
    member.publish("before")
    size = (victim.data_dir / "annals.sqlite-wal").stat().st_size
    unlimited = resource.prlimit(victim.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        with ThreadPoolExecutor(1) as pool:
            payload = {"type": "json", "data": "x" * 50_000}
            failing = pool.submit(member.post, {"events": [{"type": ["large"], "payload": payload}]})
            threading.Event().wait(SLOW_S)
            began = time.monotonic()
            assert types_of(member) == ["before"]
            assert time.monotonic() - began < AT_ONCE_S
            assert not failing.done()
            resource.prlimit(victim.process.pid, resource.RLIMIT_FSIZE, unlimited)
            assert failing.result().status_code == 201
    finally:
        resource.prlimit(victim.process.pid, resource.RLIMIT_FSIZE, unlimited)
    assert types_of(member) == ["before", "large"]
