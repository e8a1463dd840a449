"""Groups of rows, in Arrow and numpy: what databases do with GROUP BY, with whole columns at a time."""

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
"""Whole numbers, an array of numpy."""


class Groups:
    """The rows of a table, those with the same values of some columns together; null is a value like others."""

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
        """How many rows each group has."""
        return pa.array(np.diff(np.append(self._starts, self._table.num_rows)))

    def key(self, name: str) -> pa.Array:
        """What the rows of each group have in common."""
        return column(self._table, name).take(pa.array(self._starts))

    def min(self, name: str) -> pa.Array:
        """The least number of each group; null if there is none."""
        return self._reduced(np.minimum, name, _INT_MAX)

    def max(self, name: str) -> pa.Array:
        """The greatest number of each group; null if there is none."""
        return self._reduced(np.maximum, name, _INT_MIN)

    def sum(self, name: str) -> pa.Array:
        """The sum of the numbers of each group, 0 if there is none."""
        return pa.array(self._added(_ints(column(self._table, name), 0)))

    def count(self, name: str, *values: str) -> pa.Array:
        """How many rows have one of these values; without values, how many have any."""
        texts = column(self._table, name)
        found = pc.is_in(texts, pa.array(values)) if values else pc.is_valid(texts)
        return pa.array(self._added(found.to_numpy(zero_copy_only=False).astype(np.int64)))

    def first(self, name: str, by: str) -> pa.Array:
        """What the row with the least number in `by` has there; rows without one do not count."""
        return self._picked(name, by, -1)

    def last(self, name: str, by: str) -> pa.Array:
        """What the row with the greatest number in `by` has there; rows without one do not count."""
        return self._picked(name, by, 1)

    def durations(self, name: str = "seconds") -> dict[str, pa.Array]:
        """Exact percentiles, mean and maximum of numbers; null where a group has none."""
        numbers = column(self._table, name)
        is_there = numbers.is_valid().to_numpy(zero_copy_only=False)
        of = self._of[is_there]
        values = numbers.drop_null().to_numpy(zero_copy_only=False)
        values = values[np.lexsort((values, of))]
        counts = np.bincount(of, minlength=len(self._starts))
        begins = np.cumsum(counts) - counts
        nothing = counts == 0
        found = {
            percentile: pa.array(_interpolated(values, begins, counts, share), mask=nothing)
            for percentile, share in PERCENTILES.items()
        }
        sums = np.zeros(len(counts))
        sums[~nothing] = np.add.reduceat(values, begins[~nothing]) if values.size else 0
        means = np.divide(sums, counts, out=np.zeros(len(counts)), where=~nothing)
        longest = _interpolated(values, begins, counts, 1.0)
        return {**found, "mean": pa.array(means, mask=nothing), "longest": pa.array(longest, mask=nothing)}

    def _reduced(self, how: np.ufunc, name: str, nothing: int) -> pa.Array:
        if not self._table.num_rows:
            return pa.array([], pa.int64())
        found = how.reduceat(_ints(column(self._table, name), nothing), self._starts)
        return pa.array(found, mask=found == nothing)

    def _added(self, numbers: Ints) -> Ints:
        return np.add.reduceat(numbers, self._starts) if numbers.size else np.zeros(0, dtype=np.int64)

    def _picked(self, name: str, by: str, sign: int) -> pa.Array:
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
    """A column in one piece."""
    found = table[name]
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def begins_of(is_first: Any) -> Ints:
    """Where the rows begin that each row follows, of rows some of which are the first."""
    return np.maximum.accumulate(np.where(is_first, np.arange(len(is_first)), 0))


def with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """The table with more columns."""
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def where(values: pa.Array, condition: pa.Array) -> pa.Array:
    """The values where the condition is true, null elsewhere."""
    return pc.if_else(pc.fill_null(condition, False), values, pa.scalar(None, values.type))


def seconds_between(begin_us: pa.Array, end_us: pa.Array) -> pa.Array:
    """How long it took; null if one of the times is not known."""
    return pc.divide(pc.subtract(end_us, begin_us).cast(pa.float64()), 1e6)


def time_of(time_us: pa.Array) -> pa.Array:
    """Microseconds as a time."""
    return time_us.cast(pa.timestamp("us", "UTC"))


def day_of(time_us: pa.Array) -> pa.Array:
    """The day of a time."""
    days = time_us.to_numpy(zero_copy_only=False) // 86_400_000_000
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def ratio(part: pa.Array, of: pa.Array) -> pa.Array:
    """The share of one number in another; null if that is 0."""
    whole = where(of, pc.greater(of, 0)).cast(pa.float64())
    return pc.divide(part.cast(pa.float64()), whole)


def texts(value: str | None, length: int) -> pa.Array:
    """The same text in all rows."""
    return pa.nulls(length, pa.string()) if value is None else pa.repeat(value, length)


def joined(tables: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of several tables with the same columns."""
    return pa.concat_tables([pa.table(dict(one)) for one in tables])


def _codes(values: pa.Array) -> Ints:
    """A number for each value; equal for equal values."""
    indices = values.dictionary_encode(null_encoding="encode").indices
    return indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _ints(values: pa.Array, nothing: int) -> Ints:
    found: Ints = pc.fill_null(values.cast(pa.int64()), nothing).to_numpy(zero_copy_only=False)
    return found


def _interpolated(values: Any, begins: Ints, counts: Ints, share: float) -> Any:
    """The value at a share of each group's sorted values, between two of them if need be."""
    if not values.size:
        return np.zeros(len(counts))
    place = share * np.maximum(counts - 1, 0)
    below = np.floor(place).astype(np.int64)
    low = values[np.minimum(begins + below, len(values) - 1)]
    high = values[np.minimum(begins + np.minimum(below + 1, np.maximum(counts - 1, 0)), len(values) - 1)]
    return np.asarray(low + (high - low) * (place - below))
