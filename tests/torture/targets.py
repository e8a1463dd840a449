"""The targets of fault injection, and their faults."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.server import local_tokens
from tests.fault_proxy import RandomFaultProxy
from tests.torture.checks.evaluation import evaluate
from tests.torture.checks.report import Outcome
from tests.torture.faults import Fault, Odds
from tests.torture.progress import Progress, RunSettings
from tests.torture.servers import EmbeddedServer, free_port
from tests.torture.signals import Signals
from tests.torture.stores import DynamoStore, SqliteStore, Store
from tests.torture.workers.attackers import AttackerSettings, attack
from tests.torture.workers.clients import Address, ClientSettings, HttpSources, publish
from tests.torture.workers.pool import WorkerPool, WorkerSlot
from tests.torture.workers.readers import ReaderSettings, SourceFactory, StoreSources, read
from tests.torture.workers.workload import SERVER
from tests.torture.workers.writers import WriterSettings, write

WRITERS = 3
READERS = 3
ORGANIZATION = "local"


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """Faults for the processes that use a store."""

    odds: Odds
    max_kill_interval_s: float
    pause_s: float


SQLITE = FaultSettings(
    {
        Fault.CLOCK_OFF: 0.8,
        Fault.CLOCK_BACK: 0.02,
        Fault.RESPONSE_LOST: 0.03,
        Fault.ALL_RESPONSES_LOST: 0.01,
        Fault.RESPONSE_LATE: 0.02,
        Fault.KILLED_BEFORE: 0.005,
        Fault.KILLED_DURING: 0.01,
        Fault.KILLED_AFTER: 0.005,
        Fault.SENT_TWICE: 0.05,
    },
    max_kill_interval_s=1.0,
    pause_s=0.01,
)
DYNAMODB = FaultSettings(
    {
        Fault.CLOCK_OFF: 0.8,
        Fault.CLOCK_BACK: 0.05,
        Fault.KILLED_BEFORE: 0.02,
        Fault.KILLED_DURING: 0.02,
        Fault.KILLED_AFTER: 0.02,
        Fault.SENT_TWICE: 0.1,
    },
    max_kill_interval_s=3.0,
    pause_s=0.15,
)
EARLY_KILLS: Mapping[tuple[int, int], Odds] = {
    (0, 0): {Fault.KILLED_BEFORE: 0.3},
    (1, 0): {Fault.KILLED_AFTER: 0.3},
    (0, 1): {Fault.KILLED_DURING: 0.3},
}
"""Writer and turn: additional odds that kill it early."""
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
HTTP_ODDS: Odds = {Fault.CLIENT_DISCONNECTED: 0.05}
HTTP_PAUSE_S = 0.02

SERVER_ENDINGS = (Fault.SERVER_KILLED, Fault.SERVER_STOPPED, Fault.SERVER_KILLED, Fault.SERVER_KILLED)
"""How the server is stopped, in rotation."""
MAX_UPTIME_S = 0.8
"""Time between a start of the server and its next stop."""
POLL_INTERVAL_S = 0.02
CLEAN_EXIT_CODES = (0, -15)
"""Exit codes after SIGTERM: a clean shutdown, or the signal handler was not yet installed."""


def torture_sqlite(settings: RunSettings) -> Outcome:
    """Run writers and readers on one SQLite file."""
    settings.home.mkdir(parents=True)
    store = SqliteStore(settings.home / "annals.sqlite")
    progress = Progress("sqlite", settings, [*SQLITE.odds, Fault.KILLED])
    pools = _run_on_store(settings, store, SQLITE, progress, Counter())
    return evaluate("sqlite", settings.home, store.stored_items(SERVER), pools)


def torture_dynamodb(settings: RunSettings, endpoint: str) -> Outcome:
    """Run writers and readers on two DynamoDB tables, over unreliable connections."""
    settings.home.mkdir(parents=True)
    store = new_dynamo_store(settings, endpoint)
    with fault_proxy(settings, endpoint) as proxy:
        through_proxy = DynamoStore(proxy.url, store.log_table, store.views_table)
        progress = Progress("dynamodb", settings, [*DYNAMODB.odds, *WRITE_ODDS, Fault.KILLED])
        pools = _run_on_store(settings, through_proxy, DYNAMODB, progress, proxy.faults)
    return evaluate("dynamodb", settings.home, store.stored_items(SERVER), pools, proxy.faults)


def new_dynamo_store(settings: RunSettings, endpoint: str) -> DynamoStore:
    """New tables for a run."""
    suffix = f"{settings.home.name}-{time.time_ns()}"
    store = DynamoStore(endpoint, f"log-{suffix}", f"views-{suffix}")
    store.create_tables()
    return store


def fault_proxy(settings: RunSettings, endpoint: str) -> RandomFaultProxy:
    """An unreliable way to DynamoDB."""
    address = urlsplit(endpoint)
    host, port = address.hostname or "127.0.0.1", address.port or 80
    return RandomFaultProxy(host, port, WRITE_ODDS, READ_ODDS, f"{settings.seed}/proxy")


def torture_http(settings: RunSettings) -> Outcome:
    """Run clients of the embedded server, which is repeatedly killed, restarted and attacked."""
    data_dir = settings.home / "data"
    data_dir.mkdir(parents=True)
    rng = random.Random(f"{settings.seed}/server")
    server = EmbeddedServer(data_dir, free_port(rng), settings.home / "server.txt")
    store = SqliteStore(data_dir / "annals.sqlite")
    token = local_tokens.sign_token(
        local_tokens.signing_key(data_dir), "torture", [ORGANIZATION], ["publishers", "readers"]
    )
    address = Address(server.port, token)
    writers = WorkerPool([_publisher(number, settings, address) for number in range(WRITERS)])
    readers = WorkerPool(
        [reader_slot(number, settings, HttpSources(address), HTTP_PAUSE_S) for number in range(READERS)]
    )
    attackers = WorkerPool(
        [
            WorkerSlot(
                "attacker-0", lambda _: (attack, AttackerSettings("attacker-0", settings.home, address, settings.seed))
            )
        ]
    )
    signals = Signals(settings.home)
    faults: Counter[Fault] = Counter()
    try:
        server.start()
        attackers.start()
        readers.start()
        writers.start()
        progress = Progress("http", settings, [*HTTP_ODDS, *SERVER_ENDINGS])
        codes = restart_repeatedly([server], rng, faults, lambda: progress.should_continue(faults))
        signals.stop()
        attackers.join()
        writers.join()
        with store.open() as log:
            signals.set_end(log.head(SERVER).last_event_id)
        readers.join()
        codes.append(server.stop())
    finally:
        for pool in (attackers, writers, readers):
            pool.kill()
        server.kill()
        orphans = server.kill_orphans()
    unexpected_results = [f"{orphans} servers left processes behind"] if orphans else []
    unexpected_results += unexpected_exits(codes)
    pools = [attackers, writers, readers]
    return evaluate("http", settings.home, store.stored_items(SERVER), pools, faults, unexpected_results)


def _run_on_store(
    settings: RunSettings, store: Store, fault_settings: FaultSettings, progress: Progress, faults: Counter[Fault]
) -> list[WorkerPool]:
    signals = Signals(settings.home)
    writers = WorkerPool([writer_slot(number, settings, store, fault_settings.odds) for number in range(WRITERS)])
    readers = WorkerPool(
        [reader_slot(number, settings, StoreSources(store), fault_settings.pause_s) for number in range(READERS)]
    )
    try:
        readers.start()
        writers.start()
        rng = random.Random(f"{settings.seed}/parent")
        writers.kill_randomly(
            fault_settings.max_kill_interval_s, rng, lambda: progress.should_continue(writers.faults + faults)
        )
        signals.stop()
        writers.join()
        # One more turn without faults, to get a response to every unanswered request.
        writers.start()
        writers.join()
        with store.open() as log:
            signals.set_end(log.head(SERVER).last_event_id)
        readers.join()
    finally:
        writers.kill()
        readers.kill()
    return [writers, readers]


def restart_repeatedly(
    servers: Sequence[EmbeddedServer],
    rng: random.Random,
    faults: Counter[Fault],
    should_continue: Callable[[], bool],
) -> list[int]:
    """Stop and restart one server after the other until the run ends. Returns the exit codes of the clean stops."""
    codes: list[int] = []
    # Each server comes to each ending, whatever the number of servers is.
    endings = itertools.cycle((server, ending) for ending in SERVER_ENDINGS for server in servers)
    end_at = time.monotonic() + rng.uniform(0, MAX_UPTIME_S)
    while should_continue():
        time.sleep(POLL_INTERVAL_S)
        if time.monotonic() < end_at:
            continue
        server, ending = next(endings)
        faults[ending] += 1
        if ending is Fault.SERVER_STOPPED:
            codes.append(server.stop())
        else:
            server.kill()
        server.start()
        end_at = time.monotonic() + rng.uniform(0, MAX_UPTIME_S)
    return codes


def unexpected_exits(codes: Iterable[int]) -> list[str]:
    return [f"the server exited with {code} after SIGTERM" for code in codes if code not in CLEAN_EXIT_CODES]


def writer_slot(number: int, settings: RunSettings, store: Store, odds: Odds) -> WorkerSlot:
    name = f"writer-{number}"

    def make_process(turn: int) -> tuple[Callable[[WriterSettings], None], WriterSettings]:
        turn_odds = {} if Signals(settings.home).is_stopped else {**odds, **EARLY_KILLS.get((number, turn), {})}
        return write, WriterSettings(name, turn, settings.home, store, turn_odds, settings.seed)

    return WorkerSlot(name, make_process)


def _publisher(number: int, settings: RunSettings, address: Address) -> WorkerSlot:
    name = f"writer-{number}"
    return WorkerSlot(name, lambda _: (publish, ClientSettings(name, settings.home, address, HTTP_ODDS, settings.seed)))


def reader_slot(number: int, settings: RunSettings, sources: SourceFactory, pause_s: float) -> WorkerSlot:
    return WorkerSlot(
        f"reader-{number}", lambda _: (read, ReaderSettings(number, settings.home, sources, settings.seed, pause_s))
    )
