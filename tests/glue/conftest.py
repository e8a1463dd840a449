"""One Spark for all tests: to start it takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from glue_jobs.spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that every load in this process takes."""
    found = session("tests")
    yield found
    found.stop()
