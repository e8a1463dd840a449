"""Load generator for Annals whose followers use an open stream instead of a long poll."""

import json
from collections.abc import Callable

from benchmarks.load import generator
from benchmarks.load.annals import Annals


class AnnalsStream(Annals):
    """Annals at `address`, followed by a stream."""

    def follower(self) -> Callable[[], int]:
        """GET /events as NDJSON, from the current end."""
        chunks = self.stream(f"/events?after={self.end()}&timeout=60s")
        return lambda: len([json.loads(line) for line in next(chunks).splitlines()])


if __name__ == "__main__":
    generator.main(AnnalsStream)
