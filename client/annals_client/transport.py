"""How requests are sent: the address, the headers, and which failures mean that an answer was lost."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from annals_client.sans_io import Answer, Ask, Lost, Pause, Request

_log = logging.getLogger("annals_client")

Token = str | Callable[[], str]
"""A token, or where to get a fresh one: it is asked for each request."""
OURS_TO_MEND = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""What no repeat would change."""


@dataclass(frozen=True)
class Sender:
    """Where requests go, and as whom."""

    url: str
    token: Token
    organization: str | None

    def message(self, ask: Ask) -> httpx.Request:
        """The request as it goes out."""
        request = ask.request
        return httpx.Request(
            request.method,
            self.url.rstrip("/") + request.target,
            headers=self._headers(request),
            content=request.content,
            extensions={"timeout": httpx.Timeout(ask.timeout_s).as_dict()},
        )

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self._fresh_token()}"}
        if self.organization is not None:
            headers["X-Organization"] = self.organization
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        return {**headers, **request.headers}

    def _fresh_token(self) -> str:
        return self.token if isinstance(self.token, str) else self.token()


def answer_of(response: httpx.Response) -> Answer:
    """What came, read to its end."""
    return Answer(response.status_code, response.headers, response.content)


def lost_by(failure: httpx.TransportError) -> Lost:
    """An answer that will not come; raised again if that is our own fault."""
    if isinstance(failure, OURS_TO_MEND):
        raise failure
    return Lost(str(failure) or type(failure).__name__)


def note(pause: Pause) -> None:
    """Whoever wonders why nothing happens finds it in the log."""
    _log.warning("%s; asking again in %.1f s", pause.why, pause.seconds)
