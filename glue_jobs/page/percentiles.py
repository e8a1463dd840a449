"""Exact percentiles of durations. All values are kept, eight bytes each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = Any
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of durations. The values are None if there are no durations."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    longest: float | None = None


class Samples:
    """Numbers by key."""

    def __init__(self) -> None:
        self._parts: dict[Key, list[Numbers]] = {}

    def add(self, rows: pa.Table, keys: Sequence[str], number: str) -> None:
        """Add the numbers of a table's rows. Skips nulls."""
        known = rows.select([*keys, number]).filter(pc.is_valid(rows[number]))
        if not known.num_rows:
            return
        if not keys:
            self._parts.setdefault((), []).append(np.array(known[number].to_numpy()))
            return
        lists = known.group_by(list(keys), use_threads=False).aggregate([(number, "list")])
        for place, key in enumerate(iterate_rows(lists, keys)):
            # Copy, because a slice would keep the whole day in memory.
            values = np.array(lists[f"{number}_list"][place].values.to_numpy(zero_copy_only=False))
            self._parts.setdefault(key, []).append(values)

    def summary_of(self, key: Key) -> Summary:
        return summarize(self._parts.get(key, []))

    def all(self) -> Numbers:
        """All numbers."""
        return _concatenate(part for parts in self._parts.values() for part in parts)


def summarize(parts: Iterable[Numbers]) -> Summary:
    """Exact percentiles, interpolated linearly."""
    values = _concatenate(parts)
    if not values.size:
        return Summary()
    p50, p90, p99, longest = (float(value) for value in np.percentile(values, [50, 90, 99, 100]))
    return Summary(int(values.size), p50, p90, p99, longest)


def iterate_rows(table: pa.Table, names: Sequence[str]) -> list[Key]:
    """The values of columns, row by row."""
    if not names:
        return [()] * table.num_rows
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def _concatenate(parts: Iterable[Numbers]) -> Numbers:
    found = list(parts)
    return np.concatenate(found) if found else np.zeros(0)
