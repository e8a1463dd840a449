"""The log's stream's side of Lambda: which logs have grown, and what is to come again.

A record says no more than that a log has grown; what is new is read from the log itself.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from chalicelib.domain.organizations.organization import DIRECTORY, inbox_of


def projected(event: Mapping[str, Any]) -> list[int]:
    """The servers whose views are behind: organizations, their inboxes, and the directory."""
    return [server for server in _grown(event) if server >= DIRECTORY or _is_inbox(server)]


def observed(event: Mapping[str, Any]) -> list[int]:
    """The organizations whose observers have something to see."""
    return [server for server in _grown(event) if server > DIRECTORY]


def partial_failures(event: Mapping[str, Any], failed: Collection[int]) -> dict[str, list[dict[str, str]]]:
    """What Lambda wants to know: the first record to bring again; it brings all that follow, too."""
    numbers = [record["dynamodb"]["SequenceNumber"] for server, record in _appended(event) if server in failed]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in numbers[:1]]}


def _grown(event: Mapping[str, Any]) -> list[int]:
    return list(dict.fromkeys(server for server, _ in _appended(event)))


def _appended(event: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The records of new commits with their servers; what retention removes is no news."""
    for record in event["Records"]:
        if record["eventName"] != "REMOVE":
            yield int(record["dynamodb"]["Keys"]["server"]["N"]), record


def _is_inbox(server: int) -> bool:
    return server < DIRECTORY and inbox_of(-(server + 1) // 2) == server
