"""Simulated views in virtual time: the receipts of idempotency keys, and a projector that is always a little behind."""

import random
from bisect import bisect_right
from collections.abc import Collection, Sequence

from benchmarks.simulation.dynamodb import QUERY, Partition, SimulatedLog, call
from benchmarks.simulation.virtual_time import VirtualTime
from chalicelib.adapters.dynamodb.batches import MAX_BATCH_KEYS
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.key_time import latest_key_ms
from chalicelib.domain.views.record import PROJECTOR, Checkpoint, Record, checkpoints_view
from chalicelib.services.reading.no_views import NoViews

PROJECTOR_LAG_S = 3.0
"""Age of the last commit in the views: two seconds of batching (`infra/template/mappings.yaml`), and a run."""

BEGUN_AT_MS = 1
"""More than a day ago, so keys of version 0.1.0 are not looked up."""


class SimulatedViews(NoViews):
    """Implements the port `Views`, with a checkpoint and receipts. No key was used before, so there is no receipt.

    All receipts of a log have one partition key, and so one limit. DynamoDB may split it after some time.
    """

    def __init__(self, time: VirtualTime, rng: random.Random, log: SimulatedLog) -> None:
        self._time = time
        self._rng = rng
        self._log = log
        self.partitions: dict[str, Partition] = {}
        """By partition key, which is the name of the view."""

    @property
    def read_units(self) -> float:
        return sum(partition.read_units for partition in self.partitions.values())

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Strongly consistent reads of small records, one unit for each."""
        for start in range(0, len(items), MAX_BATCH_KEYS):
            self._read(view, len(items[start : start + MAX_BATCH_KEYS]))
        server = int(view.partition("/")[0].partition(".")[0])
        return {PROJECTOR: self._checkpoint(server)} if view == checkpoints_view(server) else {}

    def receipts(self, server: int, keys: Collection[str]) -> dict[str, Receipt]:
        """The receipts of version 0.1.0, which are looked up separately. Implements the port `Receipts`."""
        self.get(f"{server}/receipt", list(keys))
        return {}

    def _read(self, view: str, units: int) -> None:
        partition = self.partitions.setdefault(view, Partition())
        call(self._time, self._rng, QUERY, lambda: partition.read(units, self._time.now_s) or None)

    def _checkpoint(self, server: int) -> Record:
        commits = self._log.partition(server).commits
        projected = self._time.event_id(self._time.now_s - PROJECTOR_LAG_S)
        count = bisect_right(commits, projected, key=lambda commit: commit.at_us)
        checkpoint = Checkpoint.from_record(server, None)
        if count:
            latest_ms = max(map(latest_key_ms, commits[:count]))
            checkpoint = Checkpoint(commits[count - 1].head, begun_at_ms=BEGUN_AT_MS, latest_key_ms=latest_ms)
        return checkpoint.to_write(PROJECTOR, None).record
