"""An endpoint that answers at once and stores nothing; prints its port.

Whoever asks for items gets none, except of server 0, the directory: those of the file named on the command line.
"""

import socket
import sys
import threading
from pathlib import Path

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: STUB\r\n"
_EMPTY = b'{"Items":[],"Count":0}'
_DIRECTORY = b'":server": {"N": "0"}'
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LENGTH = b"content-length:"
_CHUNK = 1024 * 1024


def main() -> None:
    """Serve until ended."""
    directory = Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else _EMPTY
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer_all, args=(sock, directory), daemon=True).start()


def _answer_all(sock: socket.socket, directory: bytes) -> None:
    with sock:
        received = b""
        while data := sock.recv(_CHUNK):
            received += data
            head, end, body = received.partition(b"\r\n\r\n")
            if not end:
                continue
            lower = head.lower()
            if b"100-continue" in lower and not body:
                sock.sendall(_CONTINUE)
                continue
            length = int(lower.partition(_LENGTH)[2].partition(b"\r")[0])
            if len(body) >= length:
                sock.sendall(_answer(directory if _DIRECTORY in body else _EMPTY if b".query" in lower else b"{}"))
                received = body[length:]


def _answer(content: bytes) -> bytes:
    return b"%bContent-Length: %d\r\n\r\n%b" % (_HEAD, len(content), content)


if __name__ == "__main__":
    main()
