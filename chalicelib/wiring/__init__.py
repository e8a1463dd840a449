"""Wiring: build the components of a process, once, when they are first needed."""

from functools import cache

from chalicelib.services.clock import wall_clock
from chalicelib.services.ports import Clock
from chalicelib.settings import Settings
from chalicelib.wiring.components import Components, build_verifier, new_request_id

__all__ = [
    "Components",
    "build_hub",
    "build_local",
    "build_on_aws",
    "build_verifier",
    "get_components",
    "new_request_id",
]


@cache
def get_components() -> Components:
    """The components of this process, configured by its environment."""
    settings = Settings.from_environment()
    if settings.store == "sqlite":
        return build_local(settings)
    return build_hub(settings) if settings.is_hub else build_on_aws(settings)


def build_local(settings: Settings, clock: Clock = wall_clock) -> Components:
    """Components on SQLite. Appends share commits, and readers are notified without polling."""
    from chalicelib.wiring import local  # noqa: PLC0415  (each runtime imports only its own adapters)

    return local.build(settings, clock)


def build_on_aws(settings: Settings, clock: Clock = wall_clock) -> Components:
    """Components of a Lambda function, on DynamoDB and SQS."""
    from chalicelib.wiring import on_aws  # noqa: PLC0415

    return on_aws.build(settings, clock)


def build_hub(settings: Settings, clock: Clock = wall_clock) -> Components:
    """Components of the server on DynamoDB. Appends share commits, and readers share polls."""
    from chalicelib.wiring import on_aws  # noqa: PLC0415

    return on_aws.build_hub(settings, clock)
