"""Events of the log table's stream, and the response that names the records to redeliver.

A record only says that a log has new commits. The functions read the commits from the log itself.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from chalicelib.domain.organizations.organization import DIRECTORY_SERVER


def logs_to_project(event: Mapping[str, Any]) -> list[int]:
    """Logs with views: those of organizations, with their configuration and inboxes, and the directory."""
    return _extended_logs(event)


def logs_to_observe(event: Mapping[str, Any]) -> list[int]:
    """Logs with observers: those of organizations."""
    return [server for server in _extended_logs(event) if server > DIRECTORY_SERVER]


def partial_batch_response(event: Mapping[str, Any], failed: Collection[int]) -> dict[str, list[dict[str, str]]]:
    """The response that names the first record of a failed log. Lambda redelivers it and all that follow."""
    numbers = [record["dynamodb"]["SequenceNumber"] for server, record in _new_commits(event) if server in failed]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in numbers[:1]]}


def _extended_logs(event: Mapping[str, Any]) -> list[int]:
    return list(dict.fromkeys(server for server, _ in _new_commits(event)))


def _new_commits(event: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Server and record of each new commit. Records of commits that retention removed are skipped."""
    for record in event["Records"]:
        if record["eventName"] != "REMOVE":
            yield int(record["dynamodb"]["Keys"]["server"]["N"]), record
