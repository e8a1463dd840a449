"""Compares two computations of the same tables row by row."""

import math
from typing import Any

import pyarrow as pa

from tests.glue import reference_reports

Row = tuple[Any, ...]


def assert_same(actual: dict[str, pa.Table], expected: dict[str, pa.Table]) -> None:
    """Assert that all tables have the same columns and rows. Floats may differ in the last digit."""
    assert actual.keys() == expected.keys()
    for name, table in expected.items():
        assert actual[name].column_names == table.column_names, name
        actual_rows, expected_rows = _rows(actual[name]), _rows(table)
        assert len(actual_rows) == len(expected_rows), (name, actual_rows[:5], expected_rows[:5])
        different = [pair for pair in zip(actual_rows, expected_rows, strict=True) if not _same(*pair)]
        assert not different, (name, different[:3])


def _rows(table: pa.Table) -> list[Row]:
    return sorted(reference_reports.rows(table), key=lambda row: [_sort_key(value) for value in row])


def _sort_key(value: Any) -> tuple[bool, Any]:
    """Null sorts last. Floats are rounded, as in the comparison."""
    return (value is None, 0 if value is None else round(value, 5) if isinstance(value, float) else value)


def _same(first: Row, second: Row) -> bool:
    return all(map(_equal, first, second))


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
    return bool(first == second)
