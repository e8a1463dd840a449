"""An archive of the classes that Spark needs to start: made once, it halves the time that every start takes.

    python -m glue_jobs.spark.class_archive

Java passes over an archive of another Java or another Spark, so a wrong one does no harm. See `session`.
"""

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext

from glue_jobs.spark.session import archive, session


def main() -> None:
    """Make the archive, of the classes that a small job has needed."""
    archive().unlink(missing_ok=True)
    spark = session("archive", f"-XX:ArchiveClassesAtExit={archive()}")

    def same(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return batches

    rows = spark.range(0, 4, 1, 2).mapInArrow(same, "id long").repartition("id").sortWithinPartitions("id")
    rows.mapInArrow(same, "id long").select("id").distinct().collect()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    with suppress(Py4JError, OSError):  # it goes without an answer
        gateway.jvm.System.exit(0)
    gateway.proc.wait()


if __name__ == "__main__":
    main()
