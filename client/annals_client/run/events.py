"""The events of a run, in the JSON of the job vocabulary, and their idempotency keys."""

from collections.abc import Iterable, Mapping
from typing import Any

from annals_client.run.lines import DROPPED, Record
from annals_client.run.spooled_run import Description, Finish

LEVELS = {"stdout": 0, "stderr": 1, DROPPED: 1}
LOST_MESSAGE = "annals run was killed, or the machine stopped. The result of the command is unknown"


def create_event(description: Description) -> Mapping[str, Any]:
    number = {} if description["id"] is None else {"id": description["id"]}
    facts = {"params": description["params"], "props": description["props"]}
    return {"event": "create", **_job(description), **number, "time": description["startedAt"], **facts}


def output_events(description: Description, job_id: int, records: Iterable[Record]) -> list[Mapping[str, Any]]:
    return [
        {"event": "progress", **_job(description), "id": job_id, "time": record[0], "log": _log(record)}
        for record in records
    ]


def finish_event(description: Description, job_id: int, finish: Finish) -> Mapping[str, Any]:
    result = {"success": "1" if finish["isSuccess"] else "0", "message": finish["message"]}
    facts = {"params": description["params"], "props": description["props"]}
    return {"event": "finish", **_job(description), "id": job_id, "time": finish["time"], **result, **facts}


def idempotency_key(run: str, part: str) -> str:
    """`part` is `create`, `finish` or the number of a batch."""
    return f"annals-run-{run}-{part}"


def _job(description: Description) -> Mapping[str, str]:
    return {"node": description["node"], "type": description["name"]}


def _log(record: Record) -> Mapping[str, Any]:
    time_s, stream, value = record
    message = f"… {value} lines of output are missing here" if stream == DROPPED else value
    tag = "annals" if stream == DROPPED else stream
    return {"time": time_s, "message": message, "level": LEVELS.get(stream, 0), "tag": tag}
