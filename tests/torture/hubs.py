"""Two hubs and four Lambda-like writers on one log. The hubs are killed and restarted, and so are the writers."""

import random
import threading
from collections import Counter

from chalicelib.services.clock import wall_clock
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from infra.server import local_tokens
from tests.torture.checks.evaluation import evaluate
from tests.torture.checks.report import Outcome
from tests.torture.faults import Fault
from tests.torture.progress import Progress, RunSettings
from tests.torture.servers import EmbeddedServer, free_port
from tests.torture.signals import Signals
from tests.torture.stores import REGION, DynamoStore
from tests.torture.targets import (
    DYNAMODB,
    HTTP_ODDS,
    HTTP_PAUSE_S,
    ORGANIZATION,
    SERVER_ENDINGS,
    WRITE_ODDS,
    fault_proxy,
    new_dynamo_store,
    reader_slot,
    restart_repeatedly,
    unexpected_exits,
    writer_slot,
)
from tests.torture.workers.clients import Address, ClientSettings, HttpSources, publish
from tests.torture.workers.pool import WorkerPool, WorkerSlot
from tests.torture.workers.readers import StoreSources
from tests.torture.workers.workload import SERVER

HUBS = 2
FUNCTIONS = 4
STORE_READERS = 2
JWT_KEY = "the key of the torture run, long enough for HS256"


def torture_hubs(settings: RunSettings, endpoint: str) -> Outcome:
    """Run clients of both hubs, writers without a hub, and readers of the hubs and of the store."""
    settings.home.mkdir(parents=True)
    store = new_dynamo_store(settings, endpoint)
    with store.open() as log:
        Organizations(log, Appender(log, wall_clock)).create(ORGANIZATION)
    with fault_proxy(settings, endpoint) as proxy:
        through_proxy = DynamoStore(proxy.url, store.log_table, store.views_table)
        rng = random.Random(f"{settings.seed}/hubs")
        hubs = [_hub(number, settings, through_proxy, rng) for number in range(HUBS)]
        functions = WorkerPool([writer_slot(n, settings, through_proxy, DYNAMODB.odds) for n in range(FUNCTIONS)])
        faults: Counter[Fault] = Counter()
        clients, readers, codes = _run(settings, store, hubs, functions, faults, proxy.faults)
    pools = [functions, clients, readers]
    unexpected_results = unexpected_exits(codes)
    return evaluate("hubs", settings.home, store.stored_items(SERVER), pools, faults + proxy.faults, unexpected_results)


def _run(
    settings: RunSettings,
    store: DynamoStore,
    hubs: list[EmbeddedServer],
    functions: WorkerPool,
    faults: Counter[Fault],
    wire_faults: Counter[Fault],
) -> tuple[WorkerPool, WorkerPool, list[int]]:
    """Run until the end of the log is read. Returns the clients, the readers and the exit codes of clean stops."""
    token = local_tokens.sign_token(JWT_KEY, "torture", [ORGANIZATION], ["publishers", "readers"])
    addresses = [Address(hub.port, token) for hub in hubs]
    clients = WorkerPool([_client(number, settings, addresses) for number in range(HUBS)])
    readers = WorkerPool(
        [reader_slot(number, settings, HttpSources(address), HTTP_PAUSE_S) for number, address in enumerate(addresses)]
        + [reader_slot(HUBS + n, settings, StoreSources(store), DYNAMODB.pause_s) for n in range(STORE_READERS)]
    )
    signals, is_over, codes = Signals(settings.home), threading.Event(), list[int]()
    progress = Progress("hubs", settings, [*DYNAMODB.odds, *WRITE_ODDS, *HTTP_ODDS, *SERVER_ENDINGS, Fault.KILLED])
    rng = random.Random(f"{settings.seed}/parent")

    def restart_hubs() -> None:
        restart_rng = random.Random(f"{settings.seed}/restarts")
        codes.extend(restart_repeatedly(hubs, restart_rng, faults, lambda: not is_over.is_set()))

    restarts = threading.Thread(target=restart_hubs)
    try:
        for hub in hubs:
            hub.start()
        for pool in (readers, clients, functions):
            pool.start()
        restarts.start()
        functions.kill_randomly(
            DYNAMODB.max_kill_interval_s,
            rng,
            lambda: progress.should_continue(functions.faults + faults + wire_faults),
        )
        is_over.set()
        restarts.join()
        signals.stop()
        functions.join()
        # One more turn without faults, to get a response to every unanswered request.
        functions.start()
        functions.join()
        clients.join()
        with store.open() as log:
            signals.set_end(log.head(SERVER).last_event_id)
        readers.join()
        codes += [hub.stop() for hub in hubs]
    finally:
        is_over.set()
        for pool in (functions, clients, readers):
            pool.kill()
        for hub in hubs:
            hub.kill()
    return clients, readers, codes


def _hub(number: int, settings: RunSettings, store: DynamoStore, rng: random.Random) -> EmbeddedServer:
    environment = {
        "STORE": "dynamodb",
        "LOG_TABLE": store.log_table,
        "VIEWS_TABLE": store.views_table,
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "JWT_KEY": JWT_KEY,
    }
    folder = settings.home / f"hub-{number}"
    return EmbeddedServer(folder, free_port(rng), settings.home / f"hub-{number}.txt", environment)


def _client(number: int, settings: RunSettings, addresses: list[Address]) -> WorkerSlot:
    """A client of one hub, which sends requests without an answer to any of them."""
    name = f"writer-of-hub-{number}"
    client = ClientSettings(name, settings.home, addresses[number], HTTP_ODDS, settings.seed, tuple(addresses))
    return WorkerSlot(name, lambda _: (publish, client))
