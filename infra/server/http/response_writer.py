"""Answering: from what the app says to the bytes that go over the wire, piece by piece where it takes steps."""

from collections.abc import Callable

from chalice.app import Response

from chalicelib.http.responses import Later, Stepwise
from infra.server.http.connection import Connection
from infra.server.http.protocol import Steps, answer_bytes, stepwise_bytes


def answered(connection: Connection, answer: Callable[[], Response], is_stopping: Callable[[], bool]) -> Steps:
    """Find the answer; the steps to send it."""

    def stays() -> bool:
        connection.stays = connection.stays and not is_stopping()
        return connection.stays

    found = answer()
    if isinstance(found, Stepwise):
        if found.is_stream and not connection.takes_chunks:
            connection.stays = False
        return stepwise_bytes(found, stays, connection.takes_chunks)
    settled = found.settle() if isinstance(found, Later) else found
    return just(answer_bytes(settled, stays(), not connection.is_head))


def just(data: bytes) -> Steps:
    """One step."""
    yield data
