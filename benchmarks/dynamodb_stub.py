"""An endpoint that answers `{}` to whatever it is asked, at once; prints its port. Nothing is stored."""

import socket
import threading

_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
    b"x-amzn-RequestId: STUB\r\nContent-Length: 2\r\n\r\n{}"
)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LENGTH = b"content-length:"
_CHUNK = 1024 * 1024


def main() -> None:
    """Serve until ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer_all, args=(sock,), daemon=True).start()


def _answer_all(sock: socket.socket) -> None:
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
                sock.sendall(_ANSWER)
                received = body[length:]


if __name__ == "__main__":
    main()
