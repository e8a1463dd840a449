"""A proxy in front of a DynamoDB emulator that counts capacity units by item size, as AWS does.

Emulators count reads wrongly. The proxy counts from requests and responses. It knows the tables and indexes because
clients create them through it. An index consumes a separate write for each item that has its keys. In a transaction
only the writes to the table itself count twice.

Threads: one per connection. `Meter._lock` protects the counters and tables.
"""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from chalicelib.adapters.dynamodb.capacity import item_size, read_units, write_units

_HEADERS = ("Content-Type", "X-Amz-Target", "X-Amz-Date", "Authorization")

Item = Mapping[str, Any]
"""An item in the DynamoDB wire format."""


@dataclass
class Table:
    """The items written to a table."""

    keys: tuple[str, ...]
    indexes: dict[str, tuple[str, ...]]
    """Key attributes of each index. Only keys are projected."""
    items: dict[tuple[str, ...], Item] = field(default_factory=dict)

    def key(self, item: Item) -> tuple[str, ...]:
        return tuple(json.dumps(item[name]) for name in self.keys)

    def size(self, item: Item) -> int:
        """Size of the stored item with the same key, or 0."""
        return item_size(self.items.get(self.key(item), {}))

    def put(self, item: Item, is_done: bool, times: int = 1) -> float:
        """Write units of a put. A rejected put consumes units, too."""
        before = self.size(item)
        units: float = times * write_units(max(item_size(item), before))
        if is_done:
            self.items[self.key(item)] = item
            entries = [self.index_entry_size(item, index) for index in self.indexes]
            units += sum(write_units(size) for size in entries if size)
        return units

    def index_entry_size(self, item: Item, index: str) -> int:
        """Size of the item in an index, or 0 if it lacks the keys."""
        names = self.indexes[index]
        if not all(name in item for name in names):
            return 0
        return item_size({name: item[name] for name in {*names, *self.keys}})


class Meter:
    """Capacity units of all calls that passed the proxy."""

    def __init__(self) -> None:
        self.written = 0.0
        self.read = 0.0
        self._tables: dict[str, Table] = {}
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Reset the counters. The known items stay."""
        self.written = self.read = 0.0

    def record(self, operation: str, request: Any, status: int, response: Any) -> None:
        with self._lock:
            match operation:
                case "CreateTable":
                    self._tables[request["TableName"]] = _parse_table(request)
                case "PutItem":
                    self.written += self._tables[request["TableName"]].put(request["Item"], status == HTTPStatus.OK)
                case "TransactWriteItems":
                    puts = [write["Put"] for write in request["TransactItems"]]
                    done = status == HTTPStatus.OK
                    self.written += sum(self._tables[put["TableName"]].put(put["Item"], done, times=2) for put in puts)
                case "GetItem" | "BatchGetItem" | "Query":
                    self.read += sum(self._reads(operation, request, response))
                case "DescribeTable" | "UpdateTimeToLive":
                    pass
                case _:
                    raise ValueError(f"the cost of {operation} is not implemented")

    def _reads(self, operation: str, request: Any, response: Any) -> Iterator[float]:
        """Units of each item, or of the sum of the items of a query."""
        if operation == "Query":
            table, index = self._tables[request["TableName"]], request.get("IndexName")
            sizes = [
                table.size(item) if index is None else table.index_entry_size(item, index) for item in response["Items"]
            ]
            yield read_units(sum(sizes), request.get("ConsistentRead", False))
            return
        gets = (
            {request["TableName"]: {**request, "Keys": [request["Key"]]}}
            if "Key" in request
            else request["RequestItems"]
        )
        for name, get in gets.items():
            for key in get["Keys"]:
                yield read_units(self._tables[name].size(key), get.get("ConsistentRead", False))


@contextmanager
def run_metering_proxy(upstream: str) -> Iterator[tuple[str, Meter]]:
    """Run the proxy, and yield its URL and meter."""
    meter = Meter()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(upstream, meter))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", meter
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(upstream: str, meter: Meter) -> type[BaseHTTPRequestHandler]:
    address = urlsplit(upstream).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self.upstream_connection = http.client.HTTPConnection(address)

        def finish(self) -> None:
            self.upstream_connection.close()
            super().finish()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name: self.headers[name] for name in _HEADERS if name in self.headers}
            try:
                self.upstream_connection.request("POST", "/", body, headers)
                response = self.upstream_connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException):
                # The emulator has closed an idle connection. The client tries again.
                self.close_connection = True
                return
            operation = self.headers["X-Amz-Target"].partition(".")[2]
            meter.record(operation, json.loads(body), response.status, json.loads(content))
            self.send_response(response.status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    return Handler


def _parse_table(request: Any) -> Table:
    indexes = request.get("GlobalSecondaryIndexes", [])
    return Table(_key_names(request), {index["IndexName"]: _key_names(index) for index in indexes})


def _key_names(schema: Any) -> tuple[str, ...]:
    return tuple(key["AttributeName"] for key in schema["KeySchema"])
