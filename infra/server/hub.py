"""The server as a hub on DynamoDB: it groups the commits of many requests, and followers share one poll per log.

A hub has no data of its own. It runs no consumers, deliveries or cleaning: the Lambda functions on the stream do that.
Any number of hubs and functions may write the same logs.
"""

import os
import sys
from contextlib import suppress

from chalicelib.settings import Settings
from chalicelib.wiring import Components, get_components
from infra.server import local_tokens
from infra.server.exits import exit_on_error


class Hub:
    """Implements `Role`."""

    refresh_interval_s = 0.25
    """A commit of another process reaches followers after half of this on average. Each poll costs half a read unit."""
    worker_threads = 128
    """Each request that reads waits some milliseconds for DynamoDB."""
    stop_timeout_s = 40.0
    """Longer than any append takes, with the check of its condition. ECS waits 60 seconds before it kills a task."""
    has_slow_reads = True

    def prepare_environment(self) -> None:
        """Select the components of a hub. Exits if no token could be verified."""
        settings = Settings.from_environment()
        if not settings.oidc_issuer and not settings.jwt_key:
            sys.exit(
                "annals: set OIDC_ISSUER or JWT_KEY, with the values of the functions; a hub has no key of its own"
            )
        local_tokens.check_key_length(settings.jwt_key)
        os.environ["HUB"] = "yes"

    def open_components(self) -> Components:
        return exit_on_error(get_components)

    def start(self, components: Components, url: str) -> None:
        settings = components.settings
        with suppress(OSError):  # Standard output may be closed.
            print(
                f"Annals hub serves {url}, its tables are {settings.log_table} and {settings.views_table}", flush=True
            )

    def stop(self) -> None:
        pass
