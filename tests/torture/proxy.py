"""A proxy that breaks the connections between a client and its server, by seeded dice."""

import contextlib
import hashlib
import random
import socket
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

from tests.torture.faults import Dice, Fault, Odds

WRITES = (b"DynamoDB_20120810.PutItem", b"DynamoDB_20120810.TransactWriteItems")
"""What the head of a request says that writes: losing those is worth more than losing others."""
STUBBORN = 0.2
"""How many of the broken requests stay broken when they are repeated, so that the SDK gives up."""
REPEATS = 3
LONGEST_DELAY_S = 0.2
SILENCE_S = 60.0


class FaultProxy:
    """Listens on a port of its own and forwards whole HTTP messages, mostly."""

    def __init__(self, host: str, port: int, write_odds: Odds, read_odds: Odds, seed: str) -> None:
        self.faults: Counter[Fault] = Counter()
        self._upstream = (host, port)
        self._rng = random.Random(seed)
        self._write_dice = Dice(self._rng, write_odds, self._note)
        self._read_dice = Dice(self._rng, read_odds, self._note)
        self._lock = threading.Lock()
        self._broken: dict[bytes, tuple[Fault, int]] = {}
        """Requests that will be broken again, how, and how many times."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    @property
    def endpoint(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # shutdown wakes accept(), close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def _converse(self, client: socket.socket) -> None:
        """Forward requests and answers until one of the two ends the conversation, or a fault does."""
        with contextlib.suppress(OSError), client, socket.create_connection(self._upstream) as server:
            for sock in (client, server):
                sock.settimeout(SILENCE_S)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := _message(client)) and self._forwarded(request, client, server):
                pass

    def _forwarded(self, request: bytes, client: socket.socket, server: socket.socket) -> bool:
        fault = self._fault(request)
        if fault is Fault.WIRE_REFUSED:
            return False
        if fault is Fault.WIRE_ZOMBIE:
            client.shutdown(socket.SHUT_RDWR)
            time.sleep(self._rng.uniform(0, LONGEST_DELAY_S))
        server.sendall(request)
        answer = _message(server)
        if answer is None or fault in (Fault.WIRE_CUT, Fault.WIRE_ZOMBIE):
            return False
        if fault is Fault.WIRE_SLOW:
            time.sleep(self._rng.uniform(0, LONGEST_DELAY_S))
        client.sendall(answer)
        return True

    def _fault(self, request: bytes) -> Fault | None:
        head, _, content = request.partition(b"\r\n\r\n")
        body = hashlib.sha256(content).digest()
        dice = self._write_dice if any(name in head for name in WRITES) else self._read_dice
        with self._lock:
            again, left = self._broken.pop(body, (None, 0))
            if again is not None:
                self._note(again)
                if left > 1:
                    self._broken[body] = (again, left - 1)
                return again
            fault = dice.throws(Fault.WIRE_REFUSED, Fault.WIRE_CUT, Fault.WIRE_SLOW, Fault.WIRE_ZOMBIE)
            if fault in (Fault.WIRE_REFUSED, Fault.WIRE_CUT) and self._rng.random() < STUBBORN:
                self._broken[body] = (fault, REPEATS)
            return fault

    def _note(self, fault: Fault) -> None:
        self.faults[fault] += 1


def _message(sock: socket.socket) -> bytes | None:
    """The next HTTP message, whole; None if there is none any more."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65_536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    missing = _length(head) - len(body)
    while missing > 0:
        more = sock.recv(65_536)
        if not more:
            return None
        data += more
        missing -= len(more)
    return data


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
        if name.lower() == b"transfer-encoding":
            raise OSError(f"a message with {line.decode()} cannot be forwarded")
    return 0
