"""What a web server on loopback may do with a request."""

import socket
from threading import Event

from tests.adapters.channels.servers import Script, close


def request_of(connection: socket.socket) -> tuple[str, dict[str, str], bytes]:
    """The first line, the headers by lower-case name, and the body of what a client sent."""
    with connection.makefile("rb") as stream:
        first = stream.readline().decode().strip()
        headers: dict[str, str] = {}
        while (line := stream.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return first, headers, stream.read(int(headers.get("content-length", 0)))


def answer(status: str, *headers: str, body: bytes = b"", then: Script = close) -> Script:
    """Take a request and answer it, as well-behaved servers do."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode()
    return send(head + body, then)


def send(content: bytes, then: Script = close) -> Script:
    """Take a request and send `content`, whatever that is."""

    def script(connection: socket.socket, over: Event) -> None:
        request_of(connection)
        connection.sendall(content)
        then(connection, over)

    return script
