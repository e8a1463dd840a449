"""An endpoint that answers at once and stores nothing; prints its port.

The file named on the command line holds an answer for each operation, and one for whoever queries server 0, the
directory. What has none is answered with nothing.
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
_OF_DIRECTORY = b'":server":{"N":"0"}'
_TARGET, _LENGTH = b"x-amz-target: dynamodb_20120810.", b"content-length:"
_CHUNK = 1024 * 1024


@contextmanager
def answering(answers: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """The address of one that gives these answers."""
    file = folder / "answers.json"
    file.write_text(json.dumps(answers))
    command = [sys.executable, __file__, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def main() -> None:
    """Serve until ended."""
    answers = json.loads(Path(sys.argv[1]).read_text())
    whole = {name.lower().encode(): _answer(json.dumps(answer).encode()) for name, answer in answers.items()}
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer_all, args=(sock, whole), daemon=True).start()


def _answer_all(sock: socket.socket, answers: Mapping[bytes, bytes]) -> None:
    nothing = _answer(b"{}")
    with sock:
        received = b""
        while data := sock.recv(_CHUNK):
            received += data
            head, end, body = received.partition(b"\r\n\r\n")
            lower = head.lower()
            if end and len(body) >= (length := int(_after(_LENGTH, lower))):
                is_directory = _OF_DIRECTORY in body.replace(b" ", b"")
                operation = DIRECTORY.encode() if is_directory else _after(_TARGET, lower)
                sock.sendall(answers.get(operation, nothing))
                received = body[length:]


def _after(name: bytes, head: bytes) -> bytes:
    return head.partition(name)[2].partition(b"\r")[0]


def _answer(content: bytes) -> bytes:
    return b"%bContent-Length: %d\r\n\r\n%b" % (_HEAD, len(content), content)


if __name__ == "__main__":
    main()
