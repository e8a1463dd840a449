"""GROUP BY for Arrow tables with numpy, on whole columns."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_INT_MAX: Final = np.iinfo(np.int64).max
_INT_MIN: Final = np.iinfo(np.int64).min

Ints: TypeAlias = Any
"""A numpy array of integers."""


class Groups:
    """The rows of a table, grouped by some columns. Null is a value like others."""

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        codes = [_codes(column(table, key)) for key in keys]
        order = np.lexsort(codes[::-1]) if table.num_rows else np.zeros(0, dtype=np.int64)
        self._table = table.take(pa.array(order)) if table.num_rows else table
        is_first = np.zeros(table.num_rows, dtype=bool)
        is_first[:1] = True
        for code in codes:
            is_first[1:] |= np.diff(code[order]) != 0
        self._starts: Ints = np.flatnonzero(is_first)
        self._of: Ints = np.cumsum(is_first) - 1
        """The group of each row."""

    @cached_property
    def size(self) -> pa.Array:
        return pa.array(np.diff(np.append(self._starts, self._table.num_rows)))

    def key(self, name: str) -> pa.Array:
        """The value of a key column in each group."""
        return column(self._table, name).take(pa.array(self._starts))

    def min(self, name: str) -> pa.Array:
        """The minimum of each group. Null if it has no values."""
        return self._reduce(np.minimum, name, _INT_MAX)

    def max(self, name: str) -> pa.Array:
        """The maximum of each group. Null if it has no values."""
        return self._reduce(np.maximum, name, _INT_MIN)

    def sum(self, name: str) -> pa.Array:
        """The sum of each group. 0 if it has no values."""
        return pa.array(self._sum(_ints(column(self._table, name), 0)))

    def count(self, name: str, *values: str) -> pa.Array:
        """Number of rows with one of these values. Without values: of rows that are not null."""
        texts = column(self._table, name)
        found = pc.is_in(texts, pa.array(values)) if values else pc.is_valid(texts)
        return pa.array(self._sum(found.to_numpy(zero_copy_only=False).astype(np.int64)))

    def first(self, name: str, by: str) -> pa.Array:
        """The value in the row with the minimum of `by`. Ignores rows where `by` is null."""
        return self._pick(name, by, -1)

    def last(self, name: str, by: str) -> pa.Array:
        """The value in the row with the maximum of `by`. Ignores rows where `by` is null."""
        return self._pick(name, by, 1)

    def durations(self, name: str = "seconds") -> dict[str, pa.Array]:
        """Exact percentiles, mean and maximum. Null if a group has no values."""
        numbers = column(self._table, name)
        is_there = numbers.is_valid().to_numpy(zero_copy_only=False)
        groups = self._of[is_there]
        values = numbers.drop_null().to_numpy(zero_copy_only=False)
        values = values[np.lexsort((values, groups))]
        counts = np.bincount(groups, minlength=len(self._starts))
        starts = np.cumsum(counts) - counts
        is_empty = counts == 0
        percentiles = {
            percentile: pa.array(_interpolate(values, starts, counts, share), mask=is_empty)
            for percentile, share in PERCENTILES.items()
        }
        sums = np.zeros(len(counts))
        sums[~is_empty] = np.add.reduceat(values, starts[~is_empty]) if values.size else 0
        means = np.divide(sums, counts, out=np.zeros(len(counts)), where=~is_empty)
        longest = _interpolate(values, starts, counts, 1.0)
        return {**percentiles, "mean": pa.array(means, mask=is_empty), "longest": pa.array(longest, mask=is_empty)}

    def _reduce(self, ufunc: np.ufunc, name: str, missing: int) -> pa.Array:
        if not self._table.num_rows:
            return pa.array([], pa.int64())
        reduced = ufunc.reduceat(_ints(column(self._table, name), missing), self._starts)
        return pa.array(reduced, mask=reduced == missing)

    def _sum(self, numbers: Ints) -> Ints:
        return np.add.reduceat(numbers, self._starts) if numbers.size else np.zeros(0, dtype=np.int64)

    def _pick(self, name: str, by: str, sign: int) -> pa.Array:
        order = column(self._table, by)
        rows = np.flatnonzero(order.is_valid().to_numpy(zero_copy_only=False))
        numbers = _ints(order, 0)[rows]
        rows = rows[np.lexsort((sign * numbers, self._of[rows]))]
        of = self._of[rows]
        is_last = np.ones(len(rows), dtype=bool)
        is_last[:-1] = np.diff(of) != 0
        places = np.full(len(self._starts), -1, dtype=np.int64)
        places[of[is_last]] = rows[is_last]
        return column(self._table, name).take(pa.array(places, mask=places < 0))


def column(table: pa.Table, name: str) -> pa.Array:
    """A column as one chunk."""
    found = table[name]
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def group_starts(is_first: Any) -> Ints:
    """For each row, the index of the first row of its group."""
    return np.maximum.accumulate(np.where(is_first, np.arange(len(is_first)), 0))


def with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """The table with additional columns."""
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def where(values: pa.Array, condition: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(condition, False), values, pa.scalar(None, values.type))


def seconds_between(begin_us: pa.Array, end_us: pa.Array) -> pa.Array:
    """Seconds between two times. Null if one of them is null."""
    return pc.divide(pc.subtract(end_us, begin_us).cast(pa.float64()), 1e6)


def to_timestamp(time_us: pa.Array) -> pa.Array:
    return time_us.cast(pa.timestamp("us", "UTC"))


def to_date(time_us: pa.Array) -> pa.Array:
    days = time_us.to_numpy(zero_copy_only=False) // 86_400_000_000
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def ratio(part: pa.Array, of: pa.Array) -> pa.Array:
    """The ratio of two numbers. Null if `of` is 0."""
    whole = where(of, pc.greater(of, 0)).cast(pa.float64())
    return pc.divide(part.cast(pa.float64()), whole)


def constant_text(value: str | None, length: int) -> pa.Array:
    """A column with the same text in all rows."""
    return pa.nulls(length, pa.string()) if value is None else pa.repeat(value, length)


def concat_rows(tables: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Concatenate tables with the same columns."""
    return pa.concat_tables([pa.table(dict(table)) for table in tables])


def _codes(values: pa.Array) -> Ints:
    """Numbers that are equal for equal values."""
    indices = values.dictionary_encode(null_encoding="encode").indices
    return indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _ints(values: pa.Array, nothing: int) -> Ints:
    found: Ints = pc.fill_null(values.cast(pa.int64()), nothing).to_numpy(zero_copy_only=False)
    return found


def _interpolate(values: Any, begins: Ints, counts: Ints, share: float) -> Any:
    """The percentile of each group's sorted values, interpolated linearly."""
    if not values.size:
        return np.zeros(len(counts))
    place = share * np.maximum(counts - 1, 0)
    below = np.floor(place).astype(np.int64)
    low = values[np.minimum(begins + below, len(values) - 1)]
    high = values[np.minimum(begins + np.minimum(below + 1, np.maximum(counts - 1, 0)), len(values) - 1)]
    return np.asarray(low + (high - low) * (place - below))
