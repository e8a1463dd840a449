"""The targets: what is tortured, with which faults."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.server import local_tokens
from tests.torture.attackers import Attack, attack
from tests.torture.clients import Address, Errand, HttpWays, publish
from tests.torture.crew import Crew, Post
from tests.torture.faults import Fault, Odds
from tests.torture.progress import Order, Progress
from tests.torture.proxy import FaultProxy
from tests.torture.readers import StoreWays, Watch, Ways, read
from tests.torture.report import Outcome
from tests.torture.servers import EmbeddedServer, a_port
from tests.torture.signals import Signals
from tests.torture.stores import DynamoStore, SqliteStore, Store
from tests.torture.verdict import verdict
from tests.torture.workload import SERVER
from tests.torture.writers import Shift, write

WRITERS = 3
READERS = 3
ORGANIZATION = "local"


@dataclass(frozen=True, slots=True)
class Danger:
    """What the processes of a store have to live with."""

    odds: Odds
    between_kills_s: float
    pause_s: float


SQLITE = Danger(
    {
        Fault.CLOCK_OFF: 0.8,
        Fault.CLOCK_BACK: 0.02,
        Fault.ANSWER_LOST: 0.03,
        Fault.ANSWER_GONE: 0.01,
        Fault.ANSWER_LATE: 0.02,
        Fault.KILLED_BEFORE: 0.005,
        Fault.KILLED_DURING: 0.01,
        Fault.KILLED_AFTER: 0.005,
        Fault.SENT_TWICE: 0.05,
    },
    between_kills_s=1.0,
    pause_s=0.01,
)
DYNAMODB = Danger(
    {
        Fault.CLOCK_OFF: 0.8,
        Fault.CLOCK_BACK: 0.05,
        Fault.KILLED_BEFORE: 0.02,
        Fault.KILLED_DURING: 0.02,
        Fault.KILLED_AFTER: 0.02,
        Fault.SENT_TWICE: 0.1,
    },
    between_kills_s=3.0,
    pause_s=0.15,
)
DOOM: Mapping[tuple[int, int], Odds] = {
    (0, 0): {Fault.KILLED_BEFORE: 0.3},
    (1, 0): {Fault.KILLED_AFTER: 0.3},
    (0, 1): {Fault.KILLED_DURING: 0.3},
}
"""Writers, and their turns, that will not get far."""
WRITE_ODDS: Odds = {
    Fault.WIRE_REFUSED: 0.04,
    Fault.WIRE_CUT: 0.12,
    Fault.WIRE_SLOW: 0.06,
    Fault.WIRE_ZOMBIE: 0.06,
}
READ_ODDS: Odds = {
    Fault.WIRE_REFUSED: 0.005,
    Fault.WIRE_CUT: 0.01,
    Fault.WIRE_SLOW: 0.01,
    Fault.WIRE_ZOMBIE: 0.005,
}
HTTP_ODDS: Odds = {Fault.HUNG_UP: 0.05}
HTTP_PAUSE_S = 0.02

FATES = (Fault.SERVER_KILLED, Fault.SERVER_STOPPED, Fault.SERVER_KILLED, Fault.SERVER_KILLED)
"""How the server ends, again and again."""
LONGEST_LIFE_S = 0.8
"""Of the server, once it answers."""
LOOK_S = 0.02
PEACE = (0, -15)
"""Codes of a server that was told to stop: it did so properly, or had not yet learned how."""


def torture_sqlite(order: Order) -> Outcome:
    """Processes that write to and read from one file."""
    order.home.mkdir(parents=True)
    store = SqliteStore(order.home / "annals.sqlite")
    progress = Progress("sqlite", order, [*SQLITE.odds, Fault.KILLED])
    crews = _torture_store(order, store, SQLITE, progress, Counter())
    with store.opened() as log:
        return verdict("sqlite", order.home, log.read(SERVER, 0), crews)


def torture_dynamodb(order: Order, endpoint: str) -> Outcome:
    """Processes that write to and read from two tables, over connections that break."""
    order.home.mkdir(parents=True)
    suffix = f"{order.home.name}-{time.time_ns()}"
    store = DynamoStore(endpoint, f"log-{suffix}", f"views-{suffix}")
    store.create()
    at = urlsplit(endpoint)
    host, port = at.hostname or "127.0.0.1", at.port or 80
    with FaultProxy(host, port, WRITE_ODDS, READ_ODDS, f"{order.seed}/proxy") as proxy:
        through_proxy = DynamoStore(proxy.endpoint, store.log_table, store.views_table)
        progress = Progress("dynamodb", order, [*DYNAMODB.odds, *WRITE_ODDS, Fault.KILLED])
        crews = _torture_store(order, through_proxy, DYNAMODB, progress, proxy.faults)
    with store.opened() as log:
        return verdict("dynamodb", order.home, log.read(SERVER, 0), crews, proxy.faults)


def torture_http(order: Order) -> Outcome:
    """Clients of the embedded server, which is killed, started again and attacked all the while."""
    data_dir = order.home / "data"
    data_dir.mkdir(parents=True)
    rng = random.Random(f"{order.seed}/server")
    server = EmbeddedServer(data_dir, a_port(rng), order.home / "server.txt")
    store = SqliteStore(data_dir / "annals.sqlite")
    token = local_tokens.token(local_tokens.key(data_dir), "torture", [ORGANIZATION], ["publishers", "readers"])
    address = Address(server.port, token)
    writers = Crew([_publisher(number, order, address) for number in range(WRITERS)])
    readers = Crew([_reader(number, order, HttpWays(address), HTTP_PAUSE_S) for number in range(READERS)])
    attackers = Crew([Post("attacker-0", lambda _: (attack, Attack("attacker-0", order.home, address, order.seed)))])
    signals = Signals(order.home)
    faults: Counter[Fault] = Counter()
    try:
        server.start()
        attackers.start()
        readers.start()
        writers.start()
        codes = _end_and_restart(server, rng, faults, Progress("http", order, [*HTTP_ODDS, *FATES]))
        signals.stop()
        attackers.dismiss()
        writers.dismiss()
        with store.opened() as log:
            signals.finish(log.head(SERVER).last)
        readers.dismiss()
        codes.append(server.stop())
    finally:
        for crew in (attackers, writers, readers):
            crew.end()
        server.kill()
        orphans = server.bury()
    surprises = [f"processes of {orphans} servers outlived them by far"] if orphans else []
    surprises += [f"the server, told to stop, ended with {code}" for code in codes if code not in PEACE]
    with store.opened() as log:
        return verdict("http", order.home, log.read(SERVER, 0), [attackers, writers, readers], faults, surprises)


def _torture_store(
    order: Order, store: Store, danger: Danger, progress: Progress, faults: Counter[Fault]
) -> list[Crew]:
    signals = Signals(order.home)
    writers = Crew([_writer(number, order, store, danger.odds) for number in range(WRITERS)])
    readers = Crew([_reader(number, order, StoreWays(store), danger.pause_s) for number in range(READERS)])
    try:
        readers.start()
        writers.start()
        rng = random.Random(f"{order.seed}/parent")
        writers.decimate(danger.between_kills_s, rng, lambda: progress.goes_on(writers.faults + faults))
        signals.stop()
        writers.dismiss()
        # One more turn each, without faults, to learn what became of what was left unfinished.
        writers.start()
        writers.dismiss()
        with store.opened() as log:
            signals.finish(log.head(SERVER).last)
        readers.dismiss()
    finally:
        writers.end()
        readers.end()
    return [writers, readers]


def _end_and_restart(
    server: EmbeddedServer, rng: random.Random, faults: Counter[Fault], progress: Progress
) -> list[int]:
    """End the server in one way or another and start it again; the codes of its proper ends."""
    codes: list[int] = []
    fates = itertools.cycle(FATES)
    end_at = time.monotonic() + rng.uniform(0, LONGEST_LIFE_S)
    while progress.goes_on(faults):
        time.sleep(LOOK_S)
        if time.monotonic() < end_at:
            continue
        fate = next(fates)
        faults[fate] += 1
        if fate is Fault.SERVER_STOPPED:
            codes.append(server.stop())
        else:
            server.kill()
        server.start()
        end_at = time.monotonic() + rng.uniform(0, LONGEST_LIFE_S)
    return codes


def _writer(number: int, order: Order, store: Store, odds: Odds) -> Post:
    name = f"writer-{number}"

    def process_of(turn: int) -> tuple[Callable[[Shift], None], Shift]:
        fate = {} if Signals(order.home).stopped else {**odds, **DOOM.get((number, turn), {})}
        return write, Shift(name, turn, order.home, store, fate, order.seed)

    return Post(name, process_of)


def _publisher(number: int, order: Order, address: Address) -> Post:
    name = f"writer-{number}"
    return Post(name, lambda _: (publish, Errand(name, order.home, address, HTTP_ODDS, order.seed)))


def _reader(number: int, order: Order, ways: Ways, pause_s: float) -> Post:
    return Post(f"reader-{number}", lambda _: (read, Watch(number, order.home, ways, order.seed, pause_s)))
