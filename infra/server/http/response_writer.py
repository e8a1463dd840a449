"""HTTP/1.1 responses: from the app's `Response` to bytes, with waits in between for responses in steps."""

from collections.abc import Callable, Generator
from functools import lru_cache
from http import HTTPStatus

from chalice.app import Response

from chalicelib.domain.events.head import Head
from chalicelib.http.responses import SuspendableResponse
from chalicelib.services.feeds.suspension import Wait
from infra.server.http.connection import Connection

Steps = Generator[bytes | Wait, Head | None, None]
"""Yields bytes to send and waits. The consumer sends back the result of each wait."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def response_steps(connection: Connection, response: Response, is_stopping: Callable[[], bool]) -> Steps:
    """The steps that send `response`."""

    def keep_alive() -> bool:
        connection.keep_alive = connection.keep_alive and not is_stopping()
        return connection.keep_alive

    if isinstance(response, SuspendableResponse):
        if response.is_stream and not connection.accepts_chunks:
            connection.keep_alive = False
        return _encode_steps(response, keep_alive, connection.accepts_chunks)
    return single_step(encode_response(response, keep_alive(), not connection.is_head_request))


def single_step(data: bytes) -> Steps:
    yield data


def encode_response(response: Response, keep_alive: bool, with_body: bool = True) -> bytes:
    body = response.body
    payload: bytes = body if isinstance(body, bytes) else body.encode()
    head = b"%b%d\r\n\r\n" % (_encode_head(response.status_code, keep_alive, *response.headers.items()), len(payload))
    return head + payload if with_body else head


@lru_cache(maxsize=256)
def _encode_head(status: int, keep_alive: bool, *headers: tuple[str, str]) -> bytes:
    """The head up to the value of Content-Length. Cached, because few heads differ in anything else."""
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}", *(f"{name}: {value}" for name, value in headers)]
    if not keep_alive:
        lines.append("Connection: close")
    return "\r\n".join((*lines, "Content-Length: ")).encode("latin-1")


def _encode_steps(response: SuspendableResponse, keep_alive: Callable[[], bool], chunked: bool) -> Steps:
    """The head of a stream is sent at once. Without chunks, the end of the connection is the end of the stream."""
    if response.is_stream:
        lines = ["HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in response.headers.items())]
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        if not keep_alive():
            lines.append("Connection: close")
        yield "\r\n".join((*lines, "\r\n")).encode("latin-1")
    result = yield from _encode_pieces(response.steps, chunked)
    if not response.is_stream and result is not None:
        result.headers = {**result.headers, **response.headers}
        data = encode_response(result, keep_alive())
        del result  # A slow client must not hold the text as well as its bytes.
        yield data
    elif result is not None:
        raise ConnectionError("the stream failed, and its client must not take this for the end")
    elif chunked:
        yield b"0\r\n\r\n"


def _encode_pieces(
    steps: Generator[str | Wait, Head | None, Response | None], chunked: bool
) -> Generator[bytes | Wait, Head | None, Response | None]:
    """Encode each piece of text, in a chunk of its own, and return the result of `steps`."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Wait):
                step = steps.send((yield step))
                continue
            data = _encode_piece(step, chunked)
            del step  # A slow client must not hold the text as well as its bytes.
            yield data
            step = next(steps)
    except StopIteration as end:
        response: Response | None = end.value
        return response


def _encode_piece(text: str, chunked: bool) -> bytes:
    payload = text.encode()
    return b"%x\r\n%b\r\n" % (len(payload), payload) if chunked and payload else payload
