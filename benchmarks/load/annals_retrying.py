"""Load generator for Annals whose publishers repeat a request that was refused because too many others contend."""

import time

from benchmarks.load import generator
from benchmarks.load.annals import Annals, Connection

_BUSY = b"HTTP/1.1 503"
TIMEOUT_S = 120.0
RETRY_AFTER_S = 1.0
"""As the response says."""


class RetryingConnection(Connection):
    """Repeats requests that were not carried out. Latencies include the repetitions."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._socket.settimeout(TIMEOUT_S)

    def exchange(self, request: bytes) -> bytes:
        while (response := super().exchange(request)).startswith(_BUSY):
            if b"nothing was written" not in response:
                raise AssertionError(f"the outcome is unknown: {response[:500]!r}")
            time.sleep(RETRY_AFTER_S)
        return response


class RetryingAnnals(Annals):
    """Annals at `address`."""

    connection = RetryingConnection


if __name__ == "__main__":
    generator.main(RetryingAnnals)
