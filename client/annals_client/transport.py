"""Build httpx requests, and classify transport errors."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from annals_client.sans_io import NoResponse, Pause, Request, Response, Send

_log = logging.getLogger("annals_client")

Token = str | Callable[[], str]
"""A token, or a function that returns one. The function is called for each request."""
NOT_RETRYABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""Errors of the client itself, which a retry cannot fix."""


@dataclass(frozen=True)
class RequestBuilder:
    """Adds the base URL, the token and the organization to requests."""

    url: str
    token: Token
    organization: str | None

    def build(self, ask: Send) -> httpx.Request:
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


def response_from_httpx(response: httpx.Response) -> Response:
    return Response(response.status_code, response.headers, response.content)


def no_response_from(error: httpx.TransportError) -> NoResponse:
    """Convert a transport error to an outcome. Errors that a retry cannot fix are raised again."""
    if isinstance(error, NOT_RETRYABLE):
        raise error
    return NoResponse(str(error) or type(error).__name__)


def log_retry(pause: Pause) -> None:
    _log.warning("%s; retrying in %.1f s", pause.reason, pause.seconds)
