"""The report tables compared with the reference implementation in DuckDB."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.glue import reference_reports, without_spark
from tests.glue.export_writer import Export, write_exports
from tests.glue.sample_histories import month_history, split, split_histories
from tests.glue.table_comparison import assert_same


@pytest.mark.parametrize("seed", range(3))
def test_tables_of_month_match_reference(seed: int, tmp_path: Path) -> None:
    write_exports(tmp_path, split(month_history(seed), random.Random(seed)))
    wanted = reference_reports.tables(tmp_path)
    assert all(table.num_rows > 5 for table in wanted.values()), "there is something to compare"
    assert_same(without_spark.tables(tmp_path), wanted)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(split_histories())
def test_tables_of_any_history_match_reference(told: tuple[object, list[Export]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_exports(Path(folder), told[1])
        assert_same(without_spark.tables(Path(folder)), reference_reports.tables(Path(folder)))
