"""Each client receives exactly the log on each feed, despite cut connections and server restarts."""

import random
import signal
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.clients.feed_client import Client, FollowTask
from tests.clients.feeds import Event, expected_events, feeds, read_log
from tests.clients.publisher import Publisher
from tests.clients.recorder import Recorder
from tests.fault_proxy import CuttingProxy
from tests.serving import Server
from tests.torture.servers import free_port

STREAMS = {"KEEP_ALIVE_TIME": "1"}
PAGES = {"STREAMS": "no", "LONGEST_POLL": "1"}
LONG_RETENTION = {"WAIT_COMPLETE_TIME": "600", "ORG_FEED_EXPIRATION": "600"}
"""Feeds do not expire while a client reconnects."""
CUTS_PER_CLIENT = 2
RESTARTS = ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL))


class RestartableServer:
    """A server that can be stopped and restarted on the same port."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        self._home = home
        self._settings = settings | {"PORT": str(free_port(random.Random()))}
        self.start()

    def start(self) -> None:
        self.server = Server(self._home, **self._settings)

    def end(self, number: signal.Signals) -> int:
        """Stop the server with a signal, and return its exit code."""
        self.server.signal(number)
        code = self.server.exit_code()
        self.server.close()
        return code

    def close(self) -> None:
        self.server.close()


@pytest.mark.parametrize("transport", [STREAMS, PAGES], ids=["streams", "pages"])
def test_clients_with_faults_receive_exactly_the_log(
    transport: dict[str, str], clients: Sequence[Client], tmp_path: Path
) -> None:
    with ExitStack() as running:
        restartable = running.enter_context(closing(RestartableServer(tmp_path, {**LONG_RETENTION, **transport})))
        member = restartable.server.organization()
        publisher = running.enter_context(closing(Publisher(member)))
        publisher.start()
        proxy = running.enter_context(CuttingProxy("127.0.0.1", restartable.server.port, seed="1"))
        task = FollowTask(proxy.url, member.token, feeds(member.organization, after=0), Recorder())
        for client in clients:
            running.enter_context(client.follow(task))
        with publisher.busy():
            _inject_faults(restartable, proxy, publisher, task.recorder)
        proxy.cut_all()
        publisher.complete()
        task.recorder.wait_for_event(publisher.last)
        log = read_log(restartable.server.member(*member.organizations))
    assert log == publisher.acknowledged
    _assert_received(task.recorder, log)


def _inject_faults(
    restartable: RestartableServer, proxy: CuttingProxy, publisher: Publisher, recorder: Recorder
) -> None:
    """Cut all connections, then stop the server twice. Wait each time until all clients have recovered."""
    recorder.wait_for_event(publisher.last)
    proxy.is_cutting = True
    cuts = CUTS_PER_CLIENT * len(recorder.records)
    recorder.wait("cut enough", lambda record: record.lost >= CUTS_PER_CLIENT and proxy.cuts >= cuts)
    for number, code in RESTARTS:
        assert restartable.end(number) == code
        before = publisher.last
        restartable.start()
        recorder.wait_for_event(before + 1)
    proxy.is_cutting = False


def _assert_received(recorder: Recorder, log: list[Event]) -> None:
    expected = expected_events(log)
    for (client, feed), record in recorder.records.items():
        ids = [seen.id for seen in record.seen]
        assert ids == [seen.id for seen in expected[feed]], f"{client} on the {feed} feed"
        assert record.seen == expected[feed], f"{client} on the {feed} feed"
        assert record.opened > len(RESTARTS) + 1, f"{client} on the {feed} feed: {record}"
