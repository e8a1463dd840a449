"""The CPU that a call of DynamoDB takes: our client beside that of boto3 as it comes, and nothing to wait for.

Each round is a process of its own for each client.
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

from benchmarks.dynamodb_stub import answering
from benchmarks.results import Row, Table
from benchmarks.servers import ROOT
from benchmarks.table import Goal

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
ANSWERS: dict[str, Any] = {
    "Query": {"Items": [_ITEM], "Count": 1, "ScannedCount": 1},
    "GetItem": {"Item": _ITEM},
    "BatchGetItem": {"Responses": {"log": [{**_ITEM, **key} for key in _KEYS]}, "UnprocessedKeys": {}},
}


def measured(rounds: int, calls: int) -> Table:
    """Medians of rounds."""
    with tempfile.TemporaryDirectory() as folder, answering(ANSWERS, Path(folder)) as endpoint:
        found = {whose: [_child(whose, endpoint, calls) for _ in range(rounds)] for whose in (OURS, THEIRS)}
    return Table("CPU of a call", tuple(_row(name, found) for name in CALLS))


def _row(name: str, found: Mapping[str, Sequence[Mapping[str, float]]]) -> Row:
    return Row(name, "µs", {whose: median(one[name] for one in rounds) for whose, rounds in found.items()}, (RATIO,))


def _child(whose: str, endpoint: str, calls: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.dynamodb_client", whose, endpoint, str(calls)]
    credentials = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_SESSION_TOKEN": "t" * 800}
    environment = {**os.environ, **credentials, "AWS_DEFAULT_REGION": "eu-central-1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def _client(whose: str, endpoint: str) -> Call:
    """Nothing is imported that the other would have to wait for."""
    if whose == OURS:
        from chalicelib.adapters.aws.client import DYNAMODB, client  # noqa: PLC0415

        return client(DYNAMODB, endpoint).call
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415

    sdk = boto3.client("dynamodb", endpoint_url=endpoint)
    return lambda operation, params: getattr(sdk, re.sub(r"(?<=.)([A-Z])", r"_\1", operation).lower())(**params)


def _cpu_us(call: Call, calls: int) -> dict[str, float]:
    found = {}
    for name, (operation, params) in CALLS.items():
        for _ in range(20):
            call(operation, params)
        start = time.process_time()
        for _ in range(calls):
            call(operation, params)
        found[name] = (time.process_time() - start) * 1e6 / calls
    return found


if __name__ == "__main__":
    _whose, _endpoint, _calls = sys.argv[1:]
    print(json.dumps(_cpu_us(_client(_whose, _endpoint), int(_calls))))
