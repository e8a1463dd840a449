"""A proxy that cuts connections in the middle of an answer, when seeded dice say so."""

import contextlib
import random
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

LONGEST_LIFE_S = 2.0
_RESET = struct.pack("ii", 1, 0)
"""The option that makes closing a socket an error for its other end."""


class CuttingProxy:
    """Stays where it is, whether or not the server is there, as a load balancer does."""

    def __init__(self, port: int, seed: str) -> None:
        self.cuts = 0
        """How many answers were cut."""
        self.is_rough = False
        """Whether connections are to be cut."""
        self._upstream = ("127.0.0.1", port)
        self._rng = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # shutdown wakes accept(), close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """End all that is open."""
        for client in tuple(self._open):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def _converse(self, client: socket.socket) -> None:
        """Forward both ways until one of them ends it, or the dice do."""
        self._open.add(client)
        with contextlib.suppress(OSError), client, socket.create_connection(self._upstream) as server:
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_forward, args=(client, server), daemon=True).start()
            try:
                self._answer(server, client)
            finally:
                # Wakes the other thread, which would keep the connection open; the client gets no proper end by it.
                client.shutdown(socket.SHUT_RD)
        self._open.discard(client)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        """Forward answers; the first piece after the connection's time is up is not sent to its end."""
        ends_at = time.monotonic() + self._rng.uniform(0, LONGEST_LIFE_S)
        while piece := server.recv(65_536):
            if self.is_rough and time.monotonic() > ends_at:
                client.sendall(piece[: self._rng.randrange(len(piece))])
                self.cuts += 1
                if self._rng.random() < 0.5:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            client.sendall(piece)


def _forward(client: socket.socket, server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := client.recv(65_536):
            server.sendall(piece)
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)
