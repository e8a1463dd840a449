"""Attackers: send hostile requests to a server while it is used, killed and restarted."""

import random
import time
import traceback
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from tests.attacks.hostile_requests import HostileRequest, hostile_requests, send_raw
from tests.torture.checks.journal import SUFFIX, HostileRequestSent, Journal, UnexpectedResult
from tests.torture.signals import Signals
from tests.torture.workers.clients import RETRY_DELAY_S, Address

HOSTILE_SHARE = 0.1
"""Share of all hostile requests that one pass sends."""


@dataclass(frozen=True, slots=True)
class AttackerSettings:
    """Settings of an attacker process."""

    name: str
    home: Path
    address: Address
    seed: str


def attack(settings: AttackerSettings) -> None:
    """Send hostile requests until the run stops. Each must be rejected with one of its expected statuses."""
    journal = Journal(settings.home / f"{settings.name}{SUFFIX}")
    rng = random.Random(f"{settings.seed}/{settings.name}")
    signals = Signals(settings.home)
    try:
        while not signals.is_stopped:
            for request in hostile_requests(settings.address.token, rng.randrange(1_000_000)):
                if signals.is_stopped:
                    break
                if rng.random() < HOSTILE_SHARE:
                    _send_hostile(request, settings.address.port, journal)
    except Exception:
        journal.add(UnexpectedResult(text=traceback.format_exc()))


def _send_hostile(request: HostileRequest, port: int, journal: Journal) -> None:
    """Send one hostile request. A connection error is ignored: the server may be down."""
    journal.add(HostileRequestSent(name=request.name))
    try:
        responses = send_raw(("127.0.0.1", port), request.data)
    except OSError:
        time.sleep(RETRY_DELAY_S)
        return
    for response in responses:
        if response.status not in request.statuses | {HTTPStatus.SERVICE_UNAVAILABLE}:
            journal.add(UnexpectedResult(text=f"{request.name}: {response.status} {response.body[:200]!r}"))
