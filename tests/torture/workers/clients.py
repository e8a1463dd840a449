"""HTTP clients: writers that retry requests with a key until they are acknowledged, and readers."""

import json
import random
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from chalicelib.domain.errors import Unavailable
from tests.torture.checks.checker import parse_mark
from tests.torture.checks.evidence import AssignedId, ReadEvent
from tests.torture.checks.journal import (
    SUFFIX,
    Journal,
    RequestAcknowledged,
    RequestRefused,
    RequestSent,
    UnexpectedResult,
)
from tests.torture.faults import Dice, Fault, Odds
from tests.torture.signals import Signals
from tests.torture.workers.sources import LIMITS, format_id
from tests.torture.workers.workload import Request, Workload

TIMEOUT_S = 15.0
POLL_TIMEOUT = "0.5s"
RETRY_DELAY_S = 0.02
CONNECTIONS = 3
REPEAT_SHARE = 0.05
"""Share of requests that repeat an acknowledged one, possibly to a restarted server."""


@dataclass(frozen=True, slots=True)
class Address:
    """Port and token of the server."""

    port: int
    token: str

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a writing client."""

    name: str
    home: Path
    address: Address
    odds: Odds
    seed: str
    other_addresses: tuple[Address, ...] = ()
    """Of servers with the same log. The client may send a request to another one after it got no answer."""


def publish(settings: ClientSettings) -> None:
    """Send requests over several connections until the run stops. Requests with a key are retried until answered."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(_publish, (replace(settings, name=f"{settings.name}-{number}") for number in range(CONNECTIONS))))


def _publish(settings: ClientSettings) -> None:
    journal = Journal(settings.home / f"{settings.name}{SUFFIX}")
    try:
        _Publisher(settings, journal).run()
    except Exception:
        journal.add(UnexpectedResult(text=traceback.format_exc()))


class _Publisher:
    def __init__(self, settings: ClientSettings, journal: Journal) -> None:
        self._address = settings.address
        self._addresses = (settings.address, *settings.other_addresses)
        self._journal = journal
        self._signals = Signals(settings.home)
        self._rng = rng = random.Random(f"{settings.seed}/{settings.name}")
        self._acknowledged: list[Request] = []
        self._dice = Dice(rng, settings.odds, journal.record_fault)
        self._workload = Workload(settings.name, rng, head=lambda: self._last)
        self._last = 0
        self._connection = settings.address.connect()

    def run(self) -> None:
        while not self._signals.is_stopped:
            request = self._next()
            self._journal.add(RequestSent(request=request))
            while not self._send(request) and request.idempotency_key is not None:
                pass

    def _next(self) -> Request:
        """A new request, or sometimes an acknowledged one again."""
        if self._acknowledged and self._rng.random() < REPEAT_SHARE:
            return self._rng.choice(self._acknowledged)
        return self._workload.next()

    def _send(self, request: Request) -> bool:
        """Send a request. False if its outcome is unknown."""
        try:
            response = self._post(request)
        except (OSError, HTTPException):
            self._connection.close()
            time.sleep(RETRY_DELAY_S)
            self._connection = self._rng.choice(self._addresses).connect()
            return False
        if response is None:
            return False
        status, content = response
        match status:
            case HTTPStatus.CREATED | HTTPStatus.OK:
                numbers = tuple(AssignedId(format_id(event), event["eventId"]) for event in content["events"])
                self._last = max(self._last, content["eventId"])
                self._journal.add(RequestAcknowledged(tag=request.tag, numbers=numbers))
                if request.idempotency_key is not None:
                    self._acknowledged.append(request)
            case HTTPStatus.CONFLICT:
                self._last = max(self._last, content["eventId"])
                self._journal.add(RequestRefused(tag=request.tag))
            case HTTPStatus.SERVICE_UNAVAILABLE:
                return False
            case _:
                self._journal.add(UnexpectedResult(text=f"{status} to {request}: {content}"))
        return True

    def _post(self, request: Request) -> tuple[int, dict[str, Any]] | None:
        headers = self._address.headers
        if request.idempotency_key is not None:
            headers["Idempotency-Key"] = request.idempotency_key
        self._connection.request("POST", "/events", json.dumps(request.body()), headers)
        if self._dice.throw(Fault.CLIENT_DISCONNECTED):
            self._connection.close()
            return None
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


@dataclass(frozen=True, slots=True)
class HttpSources:
    """Sources that read the feed over HTTP."""

    address: Address

    @contextmanager
    def open(self, number: int, rng: random.Random) -> Iterator["LongPollSource"]:
        del number
        with closing(LongPollSource(self.address, rng)) as source:
            yield source


class LongPollSource:
    """Reads by long polls over HTTP."""

    def __init__(self, address: Address, rng: random.Random) -> None:
        self._address = address
        self._rng = rng
        self._connection = address.connect()

    def read_after(self, position: int) -> tuple[list[ReadEvent], int]:
        limit = self._rng.choice(LIMITS)
        response = self._get({"after": position, "timeout": POLL_TIMEOUT} | ({"limit": limit} if limit else {}))
        events = [ReadEvent(format_id(event), event["eventId"], parse_mark(event)) for event in _snapshots(response)]
        return events, max(position, events[-1].event_id if events else response["lastEventId"])

    def extent(self) -> tuple[int, int]:
        first, last = (_snapshots(self._get({"limit": limit})) for limit in (1, -1))
        return (first[0]["eventId"], last[0]["eventId"]) if first and last else (0, 0)

    def close(self) -> None:
        self._connection.close()

    def _get(self, query: dict[str, Any]) -> dict[str, Any]:
        try:
            self._connection.request("GET", f"/events?{urlencode(query)}", headers=self._address.headers)
            response = self._connection.getresponse()
            content: dict[str, Any] = json.loads(response.read())
        except (OSError, HTTPException):
            self._connection.close()
            raise
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise Unavailable(content["detail"])
        if response.status != HTTPStatus.OK:
            raise RuntimeError(f"{response.status} to {query}: {content}")
        return content


def _snapshots(response: dict[str, Any]) -> list[dict[str, Any]]:
    match response["TYPE"]:
        case "NonEmpty":
            snapshots: list[dict[str, Any]] = response["eventSnapshots"]
            return snapshots
        case "Empty":
            return []
        case other:
            raise RuntimeError(f"unexpected feed response {other}")
