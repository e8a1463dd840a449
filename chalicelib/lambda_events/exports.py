"""What AWS tells of exports and jobs: files that have arrived in S3, runs of Glue that have ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from chalicelib.domain.exports.export import FOLDER, SUMMARY


@dataclass(frozen=True, slots=True)
class Succeeded:
    """A run of a job that did what it was to do."""

    job: str
    run: str


def arrived(event: Mapping[str, Any]) -> list[str]:
    """The ids of the exports that are complete: a summary is the last of their files. Others are of no interest."""
    keys = [unquote_plus(record["s3"]["object"]["key"]).split("/") for record in event.get("Records", ())]
    found = [key[-2] for key in keys if len(key) > 2 and (key[-3], key[-1]) == (FOLDER, SUMMARY)]
    return list(dict.fromkeys(found))


def succeeded(event: Mapping[str, Any]) -> Succeeded | None:
    """The run that has ended well; None if the event tells of something else."""
    match event:
        case {"detail": {"jobName": str(job), "jobRunId": str(run), "state": "SUCCEEDED"}}:
            return Succeeded(job, run)
        case _:
            return None
