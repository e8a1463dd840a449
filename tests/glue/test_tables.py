"""The tables of the reports, compared as a whole with a second computation by DuckDB, straight from export files."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.glue import reference_reports, without_spark
from tests.glue.comparing import assert_same
from tests.glue.export_writer import Export, write_exports
from tests.glue.sample_histories import a_month, split, split_histories


@pytest.mark.parametrize("seed", range(3))
def test_a_month_has_the_same_tables_in_both_computations(seed: int, tmp_path: Path) -> None:
    write_exports(tmp_path, split(a_month(seed), random.Random(seed)))
    wanted = reference_reports.tables(tmp_path)
    assert all(table.num_rows > 5 for table in wanted.values()), "there is something to compare"
    assert_same(without_spark.tables(tmp_path), wanted)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(split_histories())
def test_whatever_happened_both_computations_say_the_same(told: tuple[object, list[Export]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_exports(Path(folder), told[1])
        assert_same(without_spark.tables(Path(folder)), reference_reports.tables(Path(folder)))
