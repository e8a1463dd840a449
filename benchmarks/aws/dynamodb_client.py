"""CPU time of a DynamoDB call: our client compared with boto3, against a stub that responds immediately.

Each round runs each client in a new process.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.aws.dynamodb_stub import run_stub
from benchmarks.peers.servers import ROOT
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal

BATCH = 25
OURS, THEIRS = "Annals", "boto3 as it comes"
RATIO = Goal(0.33, at_most=True, of=THEIRS)

Call = Callable[[str, Mapping[str, Any]], Any]

_ITEM = {
    "server": {"N": "1"},
    "session": {"N": "7"},
    "at": {"N": "1794700000000000"},
    "n": {"N": "10"},
    "prev": {"N": "1794699999000000"},
    "req": {"S": "abcdefghijkl"},
    "body": {"S": "x" * 2000},
}
_KEY = {name: _ITEM[name] for name in ("server", "session")}
_KEYS = [{**_KEY, "session": {"N": str(session)}} for session in range(1, BATCH + 1)]
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "put a commit of 2 KB": (
        "PutItem",
        {
            "TableName": "log",
            "Item": _ITEM,
            "ConditionExpression": "attribute_not_exists(#session)",
            "ExpressionAttributeNames": {"#session": "session"},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        },
    ),
    "query one": (
        "Query",
        {
            "TableName": "log",
            "KeyConditionExpression": "#server = :server",
            "ExpressionAttributeNames": {"#server": "server"},
            "ExpressionAttributeValues": {":server": {"N": "1"}},
            "ConsistentRead": True,
            "Limit": 1,
        },
    ),
    "get one": ("GetItem", {"TableName": "log", "Key": _KEY, "ConsistentRead": True}),
    f"get {BATCH} in a batch": ("BatchGetItem", {"RequestItems": {"log": {"Keys": _KEYS, "ConsistentRead": False}}}),
}
RESPONSES: dict[str, Any] = {
    "Query": {"Items": [_ITEM], "Count": 1, "ScannedCount": 1},
    "GetItem": {"Item": _ITEM},
    "BatchGetItem": {"Responses": {"log": [{**_ITEM, **key} for key in _KEYS]}, "UnprocessedKeys": {}},
}


def measure(rounds: int, calls: int) -> Table:
    """CPU time per call, medians of the rounds."""
    with tempfile.TemporaryDirectory() as folder, run_stub(RESPONSES, Path(folder)) as endpoint:
        results = {
            client_name: [_measure_in_process(client_name, endpoint, calls) for _ in range(rounds)]
            for client_name in (OURS, THEIRS)
        }
    return Table("CPU of a call", tuple(_row(name, results) for name in CALLS))


def _row(name: str, results: Mapping[str, Sequence[Mapping[str, float]]]) -> Row:
    return Row(
        name,
        "µs",
        {client_name: median(times[name] for times in rounds) for client_name, rounds in results.items()},
        (RATIO,),
    )


def _measure_in_process(client_name: str, endpoint: str, calls: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.aws.dynamodb_client", client_name, endpoint, str(calls)]
    credentials = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_SESSION_TOKEN": "t" * 800}
    environment = {**os.environ, **credentials, "AWS_DEFAULT_REGION": "eu-central-1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    results: dict[str, float] = json.loads(ended.stdout)
    return results


def _client(client_name: str, endpoint: str) -> Call:
    # Imported here, so that neither client pays for the import of the other.
    if client_name == OURS:
        from chalicelib.adapters.aws.client import DYNAMODB, create_client  # noqa: PLC0415

        return create_client(DYNAMODB, endpoint).call
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415

    sdk = boto3.client("dynamodb", endpoint_url=endpoint)
    return lambda operation, params: getattr(sdk, re.sub(r"(?<=.)([A-Z])", r"_\1", operation).lower())(**params)


def _cpu_us(call: Call, calls: int) -> dict[str, float]:
    results = {}
    for name, (operation, params) in CALLS.items():
        for _ in range(20):
            call(operation, params)
        start = time.process_time()
        for _ in range(calls):
            call(operation, params)
        results[name] = (time.process_time() - start) * 1e6 / calls
    return results


if __name__ == "__main__":
    _client_name, _endpoint, _calls = sys.argv[1:]
    print(json.dumps(_cpu_us(_client(_client_name, _endpoint), int(_calls))))
