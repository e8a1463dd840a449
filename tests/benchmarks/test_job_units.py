"""Capacity units of reads on DynamoDB, counted by item size."""

import pytest

from benchmarks.aws.job_units import JOB_SIZES, measure


@pytest.mark.parametrize("job_size", JOB_SIZES)
def test_reads_of_a_job_cost_two_units(job_size: int) -> None:
    feed, state, *_ = measure(job_size)
    assert feed.values == {"cold": 3.0, "warm": 2.0}
    assert state.values == {"cold": 3.0, "warm": 2.0}
