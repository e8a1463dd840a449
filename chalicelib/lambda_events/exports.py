"""Events about exports and Glue jobs: files that S3 has received, job runs that have ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from chalicelib.domain.exports.export import EXPORTS_FOLDER, SUMMARY_MANIFEST


@dataclass(frozen=True, slots=True)
class JobRun:
    """A successful run of a Glue job."""

    job: str
    run_id: str


def complete_export_ids(event: Mapping[str, Any]) -> list[str]:
    """Ids of the exports whose summary, the last file of an export, has arrived. Other files are ignored."""
    keys = [unquote_plus(record["s3"]["object"]["key"]).split("/") for record in event.get("Records", ())]
    ids = [key[-2] for key in keys if len(key) > 2 and (key[-3], key[-1]) == (EXPORTS_FOLDER, SUMMARY_MANIFEST)]
    return list(dict.fromkeys(ids))


def successful_job_run(event: Mapping[str, Any]) -> JobRun | None:
    """The run that has succeeded, or None if the event is about something else."""
    match event:
        case {"detail": {"jobName": str(job), "jobRunId": str(run_id), "state": "SUCCEEDED"}}:
            return JobRun(job, run_id)
        case _:
            return None
