"""Scripts for web servers on loopback."""

import socket
from threading import Event

from tests.adapters.channels.servers import Script, close


def request_of(connection: socket.socket) -> tuple[str, dict[str, str], bytes]:
    """Read a request: its first line, the headers by lower-case name, and the body."""
    with connection.makefile("rb") as stream:
        first = stream.readline().decode().strip()
        headers: dict[str, str] = {}
        while (line := stream.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return first, headers, stream.read(int(headers.get("content-length", 0)))


def answer(status: str, *headers: str, body: bytes = b"", then: Script = close) -> Script:
    """Read a request and send a valid response."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode()
    return send(head + body, then)


def send(content: bytes, then: Script = close) -> Script:
    """Read a request and send `content`, valid or not."""

    def script(connection: socket.socket, over: Event) -> None:
        request_of(connection)
        connection.sendall(content)
        then(connection, over)

    return script
