"""Which connections the server closes when it runs out of room."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import cast

import pytest

from chalicelib.services.feeds.notifiers import CommitNotifier
from infra.server.__main__ import RESERVED_FILES
from infra.server.gateway.gateway import Gateway
from infra.server.http.connection import Connection
from infra.server.http.connections import MAX_TOTAL_BODY_BYTES, MIN_GRACE_S, Connections
from infra.server.http.server import Server
from tests.serving import ROOT, TIMEOUT_S

NOW = 1_000.0


@pytest.fixture(name="sockets")
def fixture_sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def open_connections(sockets: ExitStack, waiting_since: list[float], max_connections: int = 100) -> Connections:
    connections = Connections(max_connections)
    for since in waiting_since:
        listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
        sockets.enter_context(socket.create_connection(listener.getsockname()))
        connection = Connection(listener.accept()[0])
        sockets.enter_context(connection.socket)
        connection.waiting_since = since
        connections.add(connection)
    return connections


def test_is_full_at_the_maximum_number(sockets: ExitStack) -> None:
    connections = open_connections(sockets, [NOW], max_connections=2)
    assert not connections.is_full
    connections.add(open_connections(sockets, [NOW]).idle_since(NOW)[0])
    assert connections.is_full


def test_idle_since_excludes_active_and_later_connections(sockets: ExitStack) -> None:
    connections = open_connections(sockets, [1.0, 2.0, 3.0])
    assert sorted(connection.waiting_since for connection in connections.idle_since(2.0)) == [1.0, 2.0]
    for connection in connections.idle_since(1.0):
        connection.is_idle = False
    assert [connection.waiting_since for connection in connections.idle_since(2.0)] == [2.0]


def test_eviction_takes_a_sixteenth_of_longest_waiting(sockets: ExitStack) -> None:
    connections = open_connections(sockets, [float(number) for number in range(40)])
    assert [connection.waiting_since for connection in connections.eviction_candidates(NOW)] == [0.0, 1.0, 2.0]


def test_eviction_takes_new_connections_first(sockets: ExitStack) -> None:
    connections = open_connections(sockets, [1.0, 2.0])
    connections.idle_since(1.0)[0].is_new = False
    assert [connection.waiting_since for connection in connections.eviction_candidates(NOW)] == [2.0]


@pytest.mark.parametrize(
    ("is_idle", "has_unsent_data", "waits_s", "is_candidate"),
    [
        (True, False, MIN_GRACE_S, True),
        (True, False, MIN_GRACE_S - 0.5, False),
        (False, True, MIN_GRACE_S, True),
        (False, True, MIN_GRACE_S - 0.5, False),
        (False, False, MIN_GRACE_S, False),
    ],
)
def test_eviction_spares_connections_that_wait_for_the_server(
    is_idle: bool, has_unsent_data: bool, waits_s: float, is_candidate: bool, sockets: ExitStack
) -> None:
    connections = open_connections(sockets, [NOW - waits_s])
    for connection in connections.idle_since(NOW):
        connection.is_idle, connection.has_unsent_data = is_idle, has_unsent_data
    assert len(connections.eviction_candidates(NOW)) == is_candidate


@pytest.mark.parametrize(("max_files", "connections"), [(2_000, 1_000), (1_000, 1_000 - RESERVED_FILES), (300, 150)])
def test_connections_are_limited_by_open_files(max_files: int, connections: int) -> None:
    code = "from infra.server.__main__ import _reserve_connections; print(_reserve_connections(1_000))"
    command = ["bash", "-c", f"ulimit -n {max_files} && exec {sys.executable} -c '{code}'"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert int(done.stdout) == connections


def test_only_uploads_are_rejected_when_bodies_take_too_much(sockets: ExitStack) -> None:
    connections = open_connections(sockets, [1.0, 2.0, 3.0])
    idle, uploading, handled = sorted(connections.idle_since(NOW), key=lambda connection: connection.waiting_since)
    handled.is_idle = False
    for connection in (uploading, handled):
        connection.active_body_bytes = MAX_TOTAL_BODY_BYTES // 2
        connections.update_body_bytes(connection)
    assert connections.slowest_uploads() == []
    handled.active_body_bytes += 1
    connections.update_body_bytes(handled)
    assert connections.slowest_uploads() == [uploading]
    assert idle.waiting_since < uploading.waiting_since


def test_listener_pauses_if_no_connection_can_be_closed() -> None:
    """Without the pause, a client that waits to be accepted would keep the server thread busy."""
    server = Server(
        cast(Gateway, None),
        CommitNotifier(),
        flush_appends=lambda _: True,
        host="127.0.0.1",
        port=0,
        max_threads=1,
        max_connections=0,
        idle_timeout_s=60.0,
    )
    server._evict_connections()
    with pytest.raises(KeyError):  # The loop does not watch it.
        server._loop.unregister(server._listener._socket)
    server._listener.close()
    server._loop.close()
