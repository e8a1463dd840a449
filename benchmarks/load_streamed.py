"""The load generator for Annals whose readers follow a stream that stays open, not a long poll."""

import json
from collections.abc import Callable

from benchmarks import load
from benchmarks.load_annals import Annals


class Streamed(Annals):
    """Annals at `address`."""

    def follower(self) -> Callable[[], int]:
        """GET /events as NDJSON, from the present end."""
        chunks = self.stream(f"/events?after={self.end()}&timeout=60s")
        return lambda: len([json.loads(line) for line in next(chunks).splitlines()])


if __name__ == "__main__":
    load.main(Streamed)
