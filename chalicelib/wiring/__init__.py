"""Wiring: the parts put together, once a process, when first needed."""

import time
from functools import cache

from chalicelib.services.ports import Clock
from chalicelib.settings import Settings
from chalicelib.wiring.components import Annals, assembled, request_id, verifier

__all__ = ["Annals", "annals", "embedded", "on_aws", "request_id", "verifier"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@cache
def annals() -> Annals:
    """The process's own, as its environment says."""
    settings = Settings.from_environment()
    return embedded(settings) if settings.store == "sqlite" else on_aws(settings)


def embedded(settings: Settings, clock: Clock = _now_ms) -> Annals:
    """One process with its log in SQLite: group commit, and readers told at once."""
    from chalicelib.wiring.local import means  # noqa: PLC0415  (each way to run loads its own)

    return assembled(settings, clock, means(settings, clock))


def on_aws(settings: Settings, clock: Clock = _now_ms) -> Annals:
    """A Lambda function with its log in DynamoDB."""
    from chalicelib.wiring.on_aws import means  # noqa: PLC0415

    return assembled(settings, clock, means(settings, clock))
