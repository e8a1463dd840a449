"""DynamoDB Local is reachable from this machine only."""

import socket
from urllib.parse import urlsplit

import pytest


def test_dynamodb_local_listens_on_loopback_only(dynamodb_local: str) -> None:
    port = urlsplit(dynamodb_local).port
    socket.create_connection(("127.0.0.1", port), timeout=1).close()
    # A server that listens on all interfaces accepts this address, too.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=1)
