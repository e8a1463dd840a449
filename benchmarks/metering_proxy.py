"""An endpoint before another one of DynamoDB that counts what AWS would: capacity units by item sizes.

Emulators count reads wrongly. What is counted here is what was sent and what was found; tables and their indexes are
known because whoever uses them creates them through here. An index takes a write of its own for each item that has its
keys. In a transaction only the table's own writes count twice.
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
"""As it is on the wire."""


@dataclass
class Table:
    """What was written to a table."""

    keys: tuple[str, ...]
    indexes: dict[str, tuple[str, ...]]
    """The keys of each index; only keys are projected."""
    items: dict[tuple[str, ...], Item] = field(default_factory=dict)

    def key(self, item: Item) -> tuple[str, ...]:
        """Which item it is."""
        return tuple(json.dumps(item[name]) for name in self.keys)

    def size(self, item: Item) -> int:
        """Of the stored item with the same key; 0 if there is none."""
        return item_size(self.items.get(self.key(item), {}))

    def put(self, item: Item, is_done: bool, times: int = 1) -> float:
        """What it takes to put the item, or to be refused."""
        before = self.size(item)
        units: float = times * write_units(max(item_size(item), before))
        if is_done:
            self.items[self.key(item)] = item
            entries = [self.projected(item, index) for index in self.indexes]
            units += sum(write_units(size) for size in entries if size)
        return units

    def projected(self, item: Item, index: str) -> int:
        """The size of the item in an index; 0 if it is not there."""
        names = self.indexes[index]
        if not all(name in item for name in names):
            return 0
        return item_size({name: item[name] for name in {*names, *self.keys}})


class Meter:
    """Units of everything that passed."""

    def __init__(self) -> None:
        self.written = 0.0
        self.read = 0.0
        self._tables: dict[str, Table] = {}
        self._mutex = threading.Lock()

    def reset(self) -> None:
        """Count from nothing; what is stored stays known."""
        self.written = self.read = 0.0

    def note(self, operation: str, asked: Any, status: int, answer: Any) -> None:
        """A call and its answer."""
        with self._mutex:
            match operation:
                case "CreateTable":
                    self._tables[asked["TableName"]] = _table(asked)
                case "PutItem":
                    self.written += self._tables[asked["TableName"]].put(asked["Item"], status == HTTPStatus.OK)
                case "TransactWriteItems":
                    puts = [write["Put"] for write in asked["TransactItems"]]
                    done = status == HTTPStatus.OK
                    self.written += sum(self._tables[put["TableName"]].put(put["Item"], done, times=2) for put in puts)
                case "GetItem" | "BatchGetItem" | "Query":
                    self.read += sum(self._reads(operation, asked, answer))
                case "DescribeTable" | "UpdateTimeToLive":
                    pass
                case _:
                    raise ValueError(f"nobody here knows what {operation} costs")

    def _reads(self, operation: str, asked: Any, answer: Any) -> Iterator[float]:
        """Each item by itself; those of a query together."""
        if operation == "Query":
            table, index = self._tables[asked["TableName"]], asked.get("IndexName")
            sizes = [table.size(item) if index is None else table.projected(item, index) for item in answer["Items"]]
            yield read_units(sum(sizes), asked.get("ConsistentRead", False))
            return
        gets = {asked["TableName"]: {**asked, "Keys": [asked["Key"]]}} if "Key" in asked else asked["RequestItems"]
        for name, some in gets.items():
            for key in some["Keys"]:
                yield read_units(self._tables[name].size(key), some.get("ConsistentRead", False))


@contextmanager
def metered(upstream: str) -> Iterator[tuple[str, Meter]]:
    """The endpoint and its meter, for as long as the block runs."""
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
            self.further = http.client.HTTPConnection(address)

        def finish(self) -> None:
            self.further.close()
            super().finish()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name: self.headers[name] for name in _HEADERS if name in self.headers}
            self.further.request("POST", "/", body, headers)
            found = self.further.getresponse()
            answer = found.read()
            operation = self.headers["X-Amz-Target"].partition(".")[2]
            meter.note(operation, json.loads(body), found.status, json.loads(answer))
            self.send_response(found.status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    return Handler


def _table(asked: Any) -> Table:
    indexes = asked.get("GlobalSecondaryIndexes", [])
    return Table(_keys(asked), {index["IndexName"]: _keys(index) for index in indexes})


def _keys(schema: Any) -> tuple[str, ...]:
    return tuple(key["AttributeName"] for key in schema["KeySchema"])
