"""Starts the processes that check Apprise URLs and send messages."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.notifications.delivery import AppriseMessage
from chalicelib.domain.notifications.observer_schema import MAX_URLS

TIMEOUT_S = 30.0
MISSING = (
    "channel: 'apprise' needs the library Apprise, which is not installed; install it where Annals runs with "
    "`.venv/bin/python -m pip install -r requirements-apprise.txt`"
)
_ROOT = Path(__file__).parents[3]
_MODULE = "chalicelib.adapters.apprise.process"
_RATE_LIMIT_STATUS = 429
_RETRYABLE_STATUSES = {408, 425}


def is_installed() -> bool:
    return find_spec("apprise") is not None


def check_urls(urls: Sequence[str], listed: Sequence[str] = (), timeout_s: float = TIMEOUT_S) -> None:
    """Raise `ValueError` with the reason, without the URL, if a message cannot be sent to one of them.

    Nothing is sent, and DNS is not queried.
    """
    if not is_installed():
        raise ValueError(MISSING)
    if not 1 <= len(urls) <= MAX_URLS:
        raise ValueError(f"config.urls: a list of 1 to {MAX_URLS} Apprise URLs")
    try:
        result = _run({"urls": list(urls), "listed": list(listed)}, timeout_s)
    except NotDelivered as error:
        raise ValueError(f"config.urls: the URLs could not be checked: {error}") from error
    if "refused" in result:
        raise ValueError(f"config.urls: {result['refused']}")


class AppriseSender:
    """Sends to public hosts, and to the hosts `listed` as `host` or `host:port`."""

    def __init__(self, listed: Sequence[str] = (), timeout_s: float = TIMEOUT_S) -> None:
        self._listed = listed
        self._timeout_s = timeout_s

    def send(self, message: AppriseMessage) -> None:
        """Raises `NotDelivered`, `RateLimited`, or `Undeliverable` if a retry cannot succeed."""
        if not is_installed():
            raise NotDelivered(MISSING)
        request = {
            "urls": [message.url],
            "listed": list(self._listed),
            "title": message.subject,
            "body": message.body,
            "kind": "failure" if message.is_failure else "info",
        }
        match _run(request, self._timeout_s):
            case {"refused": str(reason)}:
                raise Undeliverable(reason)
            case {"failed": str(reason), "status": int(status)} if status == _RATE_LIMIT_STATUS:
                raise RateLimited(reason)
            case {"failed": str(reason), "status": int(status)} if (
                400 <= status < 500 and status not in _RETRYABLE_STATUSES
            ):
                raise Undeliverable(reason)
            case {"failed": str(reason)}:
                raise NotDelivered(reason)


def _run(request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """The result of a process. Raises `NotDelivered` if it did not end properly in time."""
    try:
        done = subprocess.run(  # noqa: S603  (the command is constant)
            [sys.executable, "-m", _MODULE],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Apprise and requests may write URLs to it.
            timeout=timeout_s,
            cwd=_ROOT,
            env=_environment(),
            check=True,
        )
        result: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise NotDelivered("the service did not answer in time") from None
    except (subprocess.CalledProcessError, ValueError) as error:
        # The cause is left out, because it contains the request or its output.
        raise NotDelivered(f"Apprise ended unexpectedly ({type(error).__name__})") from None
    return result


def _environment() -> dict[str, str]:
    """Only what TLS needs, with the same authorities as the other channels. Proxies and keys are left out."""
    environment = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}
    if authorities := os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE"):
        environment["REQUESTS_CA_BUNDLE"] = authorities
    return environment
