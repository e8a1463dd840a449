"""The process that uses Apprise: reads a request from stdin as JSON, and writes the result to stdout.

The request has the URLs and the listed hosts. If it has a body, the message is sent to the first URL. The result is
empty, or has `refused` or `failed` with a reason, and the HTTP status if it is known.
"""

import json
import logging
import re
import sys
from typing import Any

from chalicelib.adapters.apprise.sandbox import Sandbox, addresses
from chalicelib.adapters.apprise.services import create_service, load_services
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.adapters.webhooks.public_hosts import PublicHosts

_STATUS = re.compile(r"\berror=(\d{3})\b")
_MIN_SECRET_CHARS = 4
"""Minimum length of a part of a URL that is removed from messages."""


class _Warnings(logging.Handler):
    """Collects what Apprise logs, because its methods return only whether they succeeded."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def main() -> None:
    """Handle one request."""
    request = json.load(sys.stdin)
    warnings = _Warnings()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [warnings], False
    load_services()  # Before the sandbox, because modules of Apprise use C libraries.
    sandbox = Sandbox()
    sandbox.enter()
    json.dump(handle(request, sandbox, warnings), sys.stdout)


def handle(request: dict[str, Any], sandbox: Sandbox, warnings: _Warnings) -> dict[str, Any]:
    """The result of a request."""
    hosts = PublicHosts.parse(request["listed"])
    services = []
    for number, url in enumerate(request["urls"], start=1):
        try:
            services.append(create_service(url, hosts))
        except ValueError as error:
            return {"refused": f"URL {number}: {error}" if "body" not in request else str(error)}
    if "body" not in request:
        return {}
    service, host = services[0]
    if host is not None and host.is_private:
        sandbox.private = addresses(host.host, host.port)
    warnings.texts.clear()
    is_sent = send(service, request["title"], request["body"], request["kind"])
    name = f"{service.schema} ({host.name})" if host else service.schema
    if sandbox.refusals:
        return {"refused": f"{name}: {sandbox.refusals[0]}"}
    if is_sent:
        return {}
    text = " ".join(warnings.texts)
    status = _STATUS.search(text)
    reason = f"{name} did not accept the message: {shorten_reason(_without_secrets(text, request['urls'][0]))}"
    return {"failed": reason, "status": int(status[1]) if status else None}


def send(service: Any, title: str, body: str, kind: str) -> bool:
    """Whether the service has accepted the message."""
    import apprise  # noqa: PLC0415  (an optional dependency)

    services = apprise.Apprise()
    services.add(service)
    return bool(services.notify(body=body, title=title, notify_type=kind, body_format=apprise.NotifyFormat.TEXT))


def _without_secrets(text: str, url: str) -> str:
    """Without the parts of the URL after its scheme, which are tokens, passwords and targets."""
    parts = re.split(r"[^A-Za-z0-9_.~-]+", url.partition("://")[2])
    for part in sorted((part for part in parts if len(part) >= _MIN_SECRET_CHARS), key=len, reverse=True):
        text = text.replace(part, "…")
    return text


if __name__ == "__main__":
    main()
