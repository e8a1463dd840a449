"""Creates an archive of Spark's JVM classes (AppCDS), which halves the start-up time.

    python -m glue_jobs.spark.class_archive

Java ignores an archive of another Java or Spark version. See `session`.
"""

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext

from glue_jobs.spark.session import class_archive, spark_session


def main() -> None:
    """Create the archive from the classes that a small job loads."""
    class_archive().unlink(missing_ok=True)
    spark = spark_session("archive", f"-XX:ArchiveClassesAtExit={class_archive()}")

    def same(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return batches

    rows = spark.range(0, 4, 1, 2).mapInArrow(same, "id long").repartition("id").sortWithinPartitions("id")
    rows.mapInArrow(same, "id long").select("id").distinct().collect()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    with suppress(Py4JError, OSError):  # the JVM exits without a response
        gateway.jvm.System.exit(0)
    gateway.proc.wait()


if __name__ == "__main__":
    main()
