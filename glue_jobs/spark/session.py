"""Spark, as we use it: all times in UTC, and on one machine no more of it than it needs."""

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from glue_jobs.spark.java import find_java

ON_GLUE: Final = "GLUE_VERSION"
"""An environment variable that Glue sets: there Spark is configured by the job."""

TASKS_PER_CORE: Final = 3
"""So many, that one that takes long does not hold up the others for long."""

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # A row may be a commit of 350 KB, or a parcel of some megabytes: few of them are in memory at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
}
_ON_ONE_MACHINE: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
# Java only moves rows here: what its second compiler and a parallel collector cost is not won back.
_JAVA: Final = f'-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile={_LOGGING.as_uri()}"'


def archive() -> Path:
    """Where an archive of Spark's classes is, if one was made."""
    return Path(sys.prefix) / "spark-classes.jsa"


def session(name: str, java: str = "") -> SparkSession:
    """The session of this process; `java` are more options for its Java."""
    settings = dict(_ALWAYS)
    builder = SparkSession.builder.appName(name)
    if ON_GLUE not in os.environ:
        find_java(os.environ)
        # Workers are to be the Python that has what we have, and to find our modules wherever they are started.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= _ON_ONE_MACHINE
        cores = len(os.sched_getaffinity(0))
        settings["spark.sql.shuffle.partitions"] = str(TASKS_PER_CORE * cores)
        # Java is silent about an archive that is not its own.
        shared = f"-XX:SharedArchiveFile={archive()} -Xlog:disable -Xlog:all=off" if archive().exists() else ""
        # Bars are for people who look on.
        settings["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
        settings["spark.driver.extraJavaOptions"] = f"{_JAVA} {shared} {java}"
        builder = builder.master(f"local[{cores}]")
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def tasks_for(spark: SparkSession, pieces: int) -> int:
    """How many tasks share so many pieces of work: each costs Python a tenth of a second, whatever it does."""
    most: int = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    return max(1, min(pieces, most))
