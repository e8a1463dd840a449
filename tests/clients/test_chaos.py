"""Each client, on each kind of feed, ends with exactly the log: whatever becomes of its connections and the server."""

import random
import signal
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.clients.feeds import Event, feeds, logged, shown
from tests.clients.following import Client, Errand
from tests.clients.notes import Notes
from tests.clients.proxy import CuttingProxy
from tests.clients.publisher import Publisher
from tests.serving import Server
from tests.torture.servers import a_port

STREAMS = {"KEEP_ALIVE_TIME": "1"}
PAGES = {"STREAMS": "no", "LONGEST_POLL": "1"}
LONG = {"WAIT_COMPLETE_TIME": "600", "ORG_FEED_EXPIRATION": "600"}
"""Nobody comes back so late that there is less to be told."""
CUTS_EACH = 2
RESTARTS = ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL))


class Place:
    """A server that ends and starts again where it was."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        self._home = home
        self._settings = settings | {"PORT": str(a_port(random.Random()))}
        self.start()

    def start(self) -> None:
        """It serves, where it did before."""
        self.server = Server(self._home, **self._settings)

    def end(self, number: signal.Signals) -> int:
        """The code with which it ended."""
        self.server.signal(number)
        code = self.server.exit_code()
        self.server.close()
        return code

    def close(self) -> None:
        """It ends for good."""
        self.server.close()


@pytest.mark.parametrize("transport", [STREAMS, PAGES], ids=["streams", "pages"])
def test_every_client_ends_with_exactly_the_log(
    transport: dict[str, str], clients: Sequence[Client], tmp_path: Path
) -> None:
    with ExitStack() as running:
        place = running.enter_context(closing(Place(tmp_path, {**LONG, **transport})))
        member = place.server.organization()
        publisher = running.enter_context(closing(Publisher(member)))
        publisher.start()
        proxy = running.enter_context(CuttingProxy(place.server.port, seed="1"))
        errand = Errand(proxy.url, member.token, feeds(member.organization, after=0), Notes())
        for client in clients:
            running.enter_context(client.following(errand))
        with publisher.busy():
            _torment(place, proxy, publisher, errand.notes)
        proxy.cut_all()
        publisher.complete()
        errand.notes.wait_for_event(publisher.last)
        log = logged(place.server.member(*member.organizations))
    assert log == publisher.acknowledged
    _assert_shown(errand.notes, log)


def _torment(place: Place, proxy: CuttingProxy, publisher: Publisher, notes: Notes) -> None:
    """Cut everybody's connections and end the server twice, each time until all have recovered."""
    notes.wait_for_event(publisher.last)
    proxy.is_rough = True
    cuts = CUTS_EACH * len(notes.diaries)
    notes.wait("cut enough", lambda diary: diary.lost >= CUTS_EACH and proxy.cuts >= cuts)
    for number, code in RESTARTS:
        assert place.end(number) == code
        before = publisher.last
        place.start()
        notes.wait_for_event(before + 1)
    proxy.is_rough = False


def _assert_shown(notes: Notes, log: list[Event]) -> None:
    expected = shown(log)
    for (client, feed), diary in notes.diaries.items():
        ids = [seen.id for seen in diary.seen]
        assert ids == [seen.id for seen in expected[feed]], f"{client} on the {feed} feed"
        assert diary.seen == expected[feed], f"{client} on the {feed} feed"
        assert diary.opened > len(RESTARTS) + 1, f"{client} on the {feed} feed: {diary}"
