"""A DynamoDB endpoint that responds immediately and stores nothing. Prints its port.

The file named on the command line holds one response per operation, and one for queries of server 0, the directory.
Other operations get an empty response.
"""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DIRECTORY = "directory"

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: STUB\r\n"
_DIRECTORY_QUERY = b'":server":{"N":"0"}'
_TARGET, _LENGTH = b"x-amz-target: dynamodb_20120810.", b"content-length:"
_CHUNK = 1024 * 1024


@contextmanager
def run_stub(responses: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Run the stub in a process, and yield its URL."""
    file = folder / "responses.json"
    file.write_text(json.dumps(responses))
    command = [sys.executable, __file__, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def main() -> None:
    """Serve until the process is terminated."""
    responses = json.loads(Path(sys.argv[1]).read_text())
    response_bytes = {
        name.lower().encode(): _response(json.dumps(response).encode()) for name, response in responses.items()
    }
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve_connection, args=(sock, response_bytes), daemon=True).start()


def _serve_connection(sock: socket.socket, responses: Mapping[bytes, bytes]) -> None:
    empty = _response(b"{}")
    with sock:
        received = b""
        while data := sock.recv(_CHUNK):
            received += data
            head, end, body = received.partition(b"\r\n\r\n")
            lower = head.lower()
            if end and len(body) >= (length := int(_header_value(_LENGTH, lower))):
                is_directory = _DIRECTORY_QUERY in body.replace(b" ", b"")
                operation = DIRECTORY.encode() if is_directory else _header_value(_TARGET, lower)
                sock.sendall(responses.get(operation, empty))
                received = body[length:]


def _header_value(name: bytes, head: bytes) -> bytes:
    return head.partition(name)[2].partition(b"\r")[0]


def _response(content: bytes) -> bytes:
    return b"%bContent-Length: %d\r\n\r\n%b" % (_HEAD, len(content), content)


if __name__ == "__main__":
    main()
