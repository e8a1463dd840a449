"""`python -m benchmarks.aws.hub`: a hub beside the same server with a put for each request, on DynamoDB Local.

`--keyed` measures the hub alone, with an idempotency key in each request, as the official client sends it.

Requests per second are measured directly on DynamoDB Local. Write units are counted in another run, through the
metering proxy, because the proxy is slower than DynamoDB Local. All publishers write single events to one log.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.aws.hub_child import GROUPED, SINGLE
from benchmarks.aws.metering_proxy import Meter, run_metering_proxy
from benchmarks.load.generator import Load
from benchmarks.peers.servers import ROOT, fresh_directory
from benchmarks.report import machine
from benchmarks.report.results import Row, Table
from chalicelib.adapters.aws.client import DYNAMODB, create_client
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.services.clock import wall_clock
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from infra.server.local_tokens import sign_token
from tests.torture.servers import dynamodb_local

SECONDS = {1: 5.0, 16: 5.0, 256: 30.0}
"""Duration of a run by number of publishers. With many of them a single put takes several seconds."""
ORGANIZATION, REGION = "bench", "eu-central-1"
JWT_KEY = "the key of the benchmark, long enough for HS256"
KEYED = "keyed"
"""A hub whose publishers send idempotency keys."""
COLUMNS = {GROUPED: "hub", SINGLE: "single puts"}
KEYED_COLUMNS = {KEYED: "hub, with keys"}
LOADS = {KEYED: "benchmarks.load.annals_keyed"}
STOP_TIMEOUT_S = 20.0
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": REGION,
}


@dataclass(frozen=True, slots=True)
class Result:
    """One server at one number of publishers."""

    load: Load
    units_per_1000: float
    read_units_per_1000: float


def measure(directory: Path, columns: Mapping[str, str] = COLUMNS) -> Iterator[Table]:
    results: dict[tuple[int, str], Result] = {}
    with dynamodb_local(directory / "dynamodb-local") as endpoint:
        for publishers, mode in product(SECONDS, columns):
            result = _measure(directory / f"{mode}-{publishers}", endpoint, mode, publishers, SECONDS[publishers])
            print(f"{publishers} publishers, {columns[mode]}: {result}", flush=True)
            results[publishers, mode] = result
    yield _table("requests per second", results, columns, lambda result: result.load.per_s)
    yield _table("latency p50, ms", results, columns, lambda result: result.load.p50_ms)
    yield _table("latency p99, ms", results, columns, lambda result: result.load.p99_ms)
    yield _table("write units per 1,000 events", results, columns, lambda result: result.units_per_1000)
    yield _table("read units per 1,000 events", results, columns, lambda result: result.read_units_per_1000)


def _table(
    title: str,
    results: Mapping[tuple[int, str], Result],
    columns: Mapping[str, str],
    value: Callable[[Result], float],
) -> Table:
    return Table(
        title,
        tuple(
            Row(
                f"{publishers} publishers",
                "",
                {column: value(results[publishers, mode]) for mode, column in columns.items()},
            )
            for publishers in SECONDS
        ),
    )


def _measure(directory: Path, endpoint: str, mode: str, publishers: int, seconds: float) -> Result:
    load, _, _ = _run(directory / "direct", endpoint, mode, publishers, seconds)
    with run_metering_proxy(endpoint) as (proxy, meter):
        metered, written, read = _run(directory / "metered", proxy, mode, publishers, seconds, meter)
    return Result(load, written * 1000 / metered.events, read * 1000 / metered.events)


def _run(
    directory: Path, endpoint: str, mode: str, publishers: int, seconds: float, meter: Meter | None = None
) -> tuple[Load, float, float]:
    """Run the publishers with a new server on new tables, and check that the log has all their events.

    Returns the load and, with a meter, the units written and read.
    """
    directory.mkdir(parents=True)
    tables = f"log-{directory.parent.name}-{directory.name}", f"views-{directory.parent.name}-{directory.name}"
    client = create_client(DYNAMODB, endpoint, REGION)
    create_tables(client, *tables)
    log = DynamoLog(client, *tables)
    Organizations(log, Appender(log, wall_clock)).create(ORGANIZATION)
    with _server(directory, endpoint, SINGLE if mode == SINGLE else GROUPED, tables) as address:
        if meter is not None:
            meter.reset()
        load = _publish(address, mode, publishers, seconds)
    units = (0.0, 0.0) if meter is None else (meter.written, meter.read)  # The check reads the whole log.
    stored = sum(commit.event_count for commit in log.read(1, 0))
    if stored != load.events:
        raise AssertionError(f"{load.events} events were acknowledged, but {stored} are in the log")
    client.close()
    return load, *units


def _publish(address: str, mode: str, publishers: int, seconds: float) -> Load:
    token = sign_token(JWT_KEY, "bench", [ORGANIZATION], ["publishers", "readers"])
    module = LOADS.get(mode, "benchmarks.load.annals_retrying")
    command = [sys.executable, "-m", module, "append", address, "--token", token]
    options = ["--clients", str(publishers), "--seconds", str(seconds)]
    done = subprocess.run([*command, *options], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{publishers} publishers failed: {done.stderr[-1000:]}")
    return Load(**json.loads(done.stdout))


@contextmanager
def _server(directory: Path, endpoint: str, mode: str, tables: tuple[str, str]) -> Iterator[str]:
    """Run a server in one of the modes, and yield its address."""
    environment = {
        "PATH": os.environ["PATH"],
        "STORE": "dynamodb",
        "LOG_TABLE": tables[0],
        "VIEWS_TABLE": tables[1],
        "AWS_ENDPOINT_URL": endpoint,
        "PORT": "0",
        "JWT_KEY": JWT_KEY,
        **CREDENTIALS,
    }
    with (directory / "server.txt").open("wb") as errors:
        command = [sys.executable, "-m", "benchmarks.aws.hub_child", mode]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert process.stdout is not None
        match = re.search(r"http://(127\.0\.0\.1:\d+)", process.stdout.readline().decode())
        if match is None:
            raise RuntimeError(f"the server did not start: {(directory / 'server.txt').read_text()}")
        yield match[1]
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keyed", action="store_true")
    columns = KEYED_COLUMNS if parser.parse_args().keyed else COLUMNS
    os.environ.update(CREDENTIALS)
    with fresh_directory() as directory:
        state = machine.current_state()
        print(f"{state['at']}, load average before {state['load']}, {os.cpu_count()} cores\n", flush=True)
        for table in measure(directory, columns):
            print(f"\n{table}", flush=True)
    print(f"\nload average after {machine.current_state()['load']}")


if __name__ == "__main__":
    main()
