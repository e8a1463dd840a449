"""Heads that came before: publishers that stay send the same one again and again, and the same bytes mean the same.

Only plain ones are known: they begin with the request's own line, all lines end as they should, and the length of the
body is told. Where such a request ends is beyond doubt, so it needs no parser.
"""

from infra.server.gateway.gateway import HttpRequest

MOST_HEADS = 512
LONGEST_BYTES = 2 * 1024

_END = b"\r\n\r\n"
_NOT_PLAIN = (b"transfer-encoding", b"expect", b"upgrade")
_ONCE = b"idempotency-key"
"""A head that has this comes once, or seldom."""


class KnownHeads:
    """Heads of requests that were parsed, with what they mean; the oldest are forgotten."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[HttpRequest, int]] = {}

    def request(self, data: bytes) -> tuple[HttpRequest, int] | None:
        """The request that `data` begins with, and where it ends; the connection stays open after it.

        None: its head is not known, or it is not all there.
        """
        head = head_of(data)
        found = self._known.get(head)
        if found is None:
            return None
        like, body_bytes = found
        end = len(head) + body_bytes
        if end > len(data):
            return None
        return HttpRequest(like.method, like.target, like.headers, data[len(head) : end], like.version), end

    def learn(self, head: bytes, request: HttpRequest) -> None:
        """The head of this request, after which its connection stays open, was that: if it is plain, it is known."""
        length = request.headers.get("content-length", "")
        if not (length.isdecimal() and _is_plain(head, request)):
            return
        if len(self._known) >= MOST_HEADS:
            del self._known[next(iter(self._known))]
        self._known[head] = request._replace(body=b""), int(length)


def _is_plain(head: bytes, request: HttpRequest) -> bool:
    line = f"{request.method} {request.target} HTTP/{request.version}\r\n".encode("latin-1")
    lines_end_well = head.count(b"\n") == head.count(b"\r") == head.count(b"\r\n")
    names = head.lower()
    return head.startswith(line) and lines_end_well and not any(name in names for name in (*_NOT_PLAIN, _ONCE))


def head_of(data: bytes) -> bytes:
    """The head that `data` begins with; nothing if it has not come yet, or is long."""
    end = data.find(_END, 0, LONGEST_BYTES)
    return data[: end + len(_END)] if end >= 0 else b""
