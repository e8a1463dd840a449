"""Clients of the HTTP API: writers that repeat what has a key until it is acknowledged, readers across restarts."""

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
from tests.torture.checker import mark_of
from tests.torture.evidence import Numbered, Seen
from tests.torture.faults import Dice, Fault, Odds
from tests.torture.journal import SUFFIX, Acknowledged, Attempted, Denied, Journal, Surprised
from tests.torture.signals import Signals
from tests.torture.sources import LIMITS, id_of
from tests.torture.workload import Request, Workload

TIMEOUT_S = 15.0
POLL = "0.5s"
PAUSE_S = 0.02
LANES = 3
AGAIN = 0.05
"""How often a request that was granted long ago is repeated, perhaps to another process of the server."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and what opens it."""

    port: int
    token: str

    def connect(self) -> HTTPConnection:
        """A connection, not yet open."""
        return HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    @property
    def headers(self) -> dict[str, str]:
        """What every request says."""
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Errand:
    """What a writing client is to do."""

    name: str
    home: Path
    address: Address
    odds: Odds
    seed: str


def publish(errand: Errand) -> None:
    """Send new requests until told to stop, several at a time; what has a key is not given up."""
    with ThreadPoolExecutor(LANES) as pool:
        list(pool.map(_publish, (replace(errand, name=f"{errand.name}-{lane}") for lane in range(LANES))))


def _publish(errand: Errand) -> None:
    journal = Journal(errand.home / f"{errand.name}{SUFFIX}")
    try:
        _Publisher(errand, journal).work()
    except Exception:
        journal.add(Surprised(text=traceback.format_exc()))


class _Publisher:
    def __init__(self, errand: Errand, journal: Journal) -> None:
        self._address = errand.address
        self._journal = journal
        self._signals = Signals(errand.home)
        self._rng = rng = random.Random(f"{errand.seed}/{errand.name}")
        self._granted: list[Request] = []
        self._dice = Dice(rng, errand.odds, journal.suffer)
        self._workload = Workload(errand.name, rng, head=lambda: self._last)
        self._last = 0
        self._connection = errand.address.connect()

    def work(self) -> None:
        while not self._signals.stopped:
            request = self._next()
            self._journal.add(Attempted(request=request))
            while not self._is_settled(request) and request.idempotency_key is not None:
                pass

    def _next(self) -> Request:
        """A new request or, now and then, an old one with its key again."""
        if self._granted and self._rng.random() < AGAIN:
            return self._rng.choice(self._granted)
        return self._workload.next()

    def _is_settled(self, request: Request) -> bool:
        """Send it; False if nothing is known thereafter."""
        try:
            answer = self._answer(request)
        except (OSError, HTTPException):
            self._connection.close()
            time.sleep(PAUSE_S)
            return False
        if answer is None:
            return False
        status, content = answer
        match status:
            case HTTPStatus.CREATED | HTTPStatus.OK:
                numbers = tuple(Numbered(id_of(event), event["eventId"]) for event in content["events"])
                self._last = max(self._last, content["eventId"])
                self._journal.add(Acknowledged(tag=request.tag, numbers=numbers))
                if request.idempotency_key is not None:
                    self._granted.append(request)
            case HTTPStatus.CONFLICT:
                self._last = max(self._last, content["eventId"])
                self._journal.add(Denied(tag=request.tag))
            case HTTPStatus.SERVICE_UNAVAILABLE:
                return False
            case _:
                self._journal.add(Surprised(text=f"{status} to {request}: {content}"))
        return True

    def _answer(self, request: Request) -> tuple[int, dict[str, Any]] | None:
        headers = self._address.headers
        if request.idempotency_key is not None:
            headers["Idempotency-Key"] = request.idempotency_key
        self._connection.request("POST", "/events", json.dumps(request.body()), headers)
        if self._dice.throws(Fault.HUNG_UP):
            self._connection.close()
            return None
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


@dataclass(frozen=True, slots=True)
class HttpWays:
    """Readers of the feed."""

    address: Address

    @contextmanager
    def opened(self, number: int, rng: random.Random) -> Iterator["Polling"]:
        """A connection for each reader."""
        del number
        with closing(Polling(self.address, rng)) as polling:
            yield polling


class Polling:
    """The long poll over HTTP."""

    def __init__(self, address: Address, rng: random.Random) -> None:
        self._address = address
        self._rng = rng
        self._connection = address.connect()

    def after(self, position: int) -> tuple[list[Seen], int]:
        """What is there, or else what comes in a while."""
        limit = self._rng.choice(LIMITS)
        answer = self._get({"after": position, "timeout": POLL} | ({"limit": limit} if limit else {}))
        events = [Seen(id_of(event), event["eventId"], mark_of(event)) for event in _snapshots(answer)]
        return events, max(position, events[-1].event_id if events else answer["lastEventId"])

    def extent(self) -> tuple[int, int]:
        """The first and the last EventId; zeros while there is none."""
        first, last = (_snapshots(self._get({"limit": limit})) for limit in (1, -1))
        return (first[0]["eventId"], last[0]["eventId"]) if first and last else (0, 0)

    def close(self) -> None:
        """Let go of the connection."""
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


def _snapshots(answer: dict[str, Any]) -> list[dict[str, Any]]:
    match answer["TYPE"]:
        case "NonEmpty":
            snapshots: list[dict[str, Any]] = answer["eventSnapshots"]
            return snapshots
        case "Empty":
            return []
        case other:
            raise RuntimeError(f"the feed answered {other}")
