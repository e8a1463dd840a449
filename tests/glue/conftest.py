"""One Spark session for all tests, because starting it takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from glue_jobs.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all loads in this process share."""
    session = spark_session("tests")
    yield session
    session.stop()
