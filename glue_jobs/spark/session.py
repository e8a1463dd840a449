"""Creates the Spark session: times in UTC, and little memory and few tasks on one machine."""

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from glue_jobs.spark.java import set_java_home

GLUE_VARIABLE: Final = "GLUE_VERSION"
"""An environment variable that Glue sets. On Glue, the job configures Spark."""

TASKS_PER_CORE: Final = 3
"""Several, so that one slow task does not delay the others for long."""

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # A row may be a commit of 350 KB or a table of several megabytes: keep few of them in memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
}
_ON_ONE_MACHINE: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
# Java only moves rows here, so the C2 compiler and a parallel collector cost more than they save.
_JAVA: Final = f'-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile={_LOGGING.as_uri()}"'


def class_archive() -> Path:
    """Path of the archive of Spark's classes. It need not exist."""
    return Path(sys.prefix) / "spark-classes.jsa"


def spark_session(name: str, java: str = "") -> SparkSession:
    """The Spark session of this process. `java` has additional Java options."""
    settings = dict(_ALWAYS)
    builder = SparkSession.builder.appName(name)
    if GLUE_VARIABLE not in os.environ:
        set_java_home(os.environ)
        # Workers must run the Python that has our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= _ON_ONE_MACHINE
        cores = len(os.sched_getaffinity(0))
        settings["spark.sql.shuffle.partitions"] = str(TASKS_PER_CORE * cores)
        # Log nothing about an archive of another Java version.
        shared = (
            f"-XX:SharedArchiveFile={class_archive()} -Xlog:disable -Xlog:all=off" if class_archive().exists() else ""
        )
        # Show progress bars on a terminal only.
        settings["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
        settings["spark.driver.extraJavaOptions"] = f"{_JAVA} {shared} {java}"
        builder = builder.master(f"local[{cores}]")
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def task_count(spark: SparkSession, pieces: int) -> int:
    """Number of tasks for `pieces` of work. Limited, because each Python task costs 0.1 s."""
    max_tasks: int = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    return max(1, min(pieces, max_tasks))
