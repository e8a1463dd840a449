"""Two computations of the same tables, compared row by row."""

import math
from typing import Any

import pyarrow as pa

from tests.glue import reference_reports

Row = tuple[Any, ...]


def assert_same(found: dict[str, pa.Table], wanted: dict[str, pa.Table]) -> None:
    """All tables have the same columns and the same rows; numbers with fractions may differ in the last digit."""
    assert found.keys() == wanted.keys()
    for name, table in wanted.items():
        assert found[name].column_names == table.column_names, name
        ours, theirs = _rows(found[name]), _rows(table)
        assert len(ours) == len(theirs), (name, ours[:5], theirs[:5])
        different = [pair for pair in zip(ours, theirs, strict=True) if not _same(*pair)]
        assert not different, (name, different[:3])


def _rows(table: pa.Table) -> list[Row]:
    return sorted(reference_reports.rows(table), key=lambda row: [_place(value) for value in row])


def _place(value: Any) -> tuple[bool, Any]:
    """Where a value stands in order: null last, and fractions as near as they are compared."""
    return (value is None, 0 if value is None else round(value, 5) if isinstance(value, float) else value)


def _same(one: Row, other: Row) -> bool:
    return all(map(_equal, one, other))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)
