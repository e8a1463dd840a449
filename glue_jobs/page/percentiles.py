"""Durations of a period: all of them are kept, eight bytes each, so that percentiles are exact."""

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
    """What is said of many durations; null if there are none."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    longest: float | None = None


class Samples:
    """Numbers by what they are of."""

    def __init__(self) -> None:
        self._parts: dict[Key, list[Numbers]] = {}

    def add(self, rows: pa.Table, keys: Sequence[str], number: str) -> None:
        """Add the numbers of a table's rows, those without one left out."""
        known = rows.select([*keys, number]).filter(pc.is_valid(rows[number]))
        if not known.num_rows:
            return
        if not keys:
            self._parts.setdefault((), []).append(np.array(known[number].to_numpy()))
            return
        lists = known.group_by(list(keys), use_threads=False).aggregate([(number, "list")])
        for place, key in enumerate(rows_of(lists, keys)):
            # A copy: otherwise the whole day stays in memory with each part of it.
            values = np.array(lists[f"{number}_list"][place].values.to_numpy(zero_copy_only=False))
            self._parts.setdefault(key, []).append(values)

    def of(self, key: Key) -> Summary:
        """What is said of one key's numbers."""
        return summary(self._parts.get(key, []))

    def all(self) -> Numbers:
        """Every number."""
        return _joined(part for parts in self._parts.values() for part in parts)


def summary(parts: Iterable[Numbers]) -> Summary:
    """Exact percentiles, between two values interpolated."""
    values = _joined(parts)
    if not values.size:
        return Summary()
    p50, p90, p99, longest = (float(value) for value in np.percentile(values, [50, 90, 99, 100]))
    return Summary(int(values.size), p50, p90, p99, longest)


def rows_of(table: pa.Table, names: Sequence[str]) -> list[Key]:
    """The values of some columns, row by row."""
    if not names:
        return [()] * table.num_rows
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def _joined(parts: Iterable[Numbers]) -> Numbers:
    found = list(parts)
    return np.concatenate(found) if found else np.zeros(0)
