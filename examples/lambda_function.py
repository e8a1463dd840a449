"""A Lambda function that publishes an event for every file that arrives in a bucket.

Set ANNALS_URL and ANNALS_TOKEN, and configure S3 to notify the function of created objects. Lambda may deliver a
notification more than once; the idempotency key ensures that each file is published once.
"""

import hashlib
import os
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from annals_client import Annals, Json, NewEvent

DEADLINE_S = 10.0
"""Shorter than the timeout of the function, so that it fails cleanly and Lambda retries it."""


def handler(notification: dict[str, Any], context: object) -> dict[str, int]:  # noqa: ARG001  (passed by Lambda)
    """Publish all files of a notification in one commit."""
    records = notification["Records"]
    key = idempotency_key(records)
    published = _annals().publish([arrival_event(record) for record in records], idempotency_key=key)
    return {"eventId": published.event_id}


def arrival_event(record: dict[str, Any]) -> NewEvent:
    bucket, file = record["s3"]["bucket"]["name"], record["s3"]["object"]
    return NewEvent(
        ["file", "arrived", bucket],
        key=f"/{bucket}/{unquote_plus(file['key'])}",
        payload=Json({"bytes": file["size"], "etag": file["eTag"]}),
        source_timestamp=datetime.fromisoformat(record["eventTime"]),
    )


def idempotency_key(records: list[dict[str, Any]]) -> str:
    """A key that is the same for repeated notifications: S3 assigns a sequencer to each change of an object."""
    files = [f"{record['s3']['object']['key']} {record['s3']['object']['sequencer']}" for record in records]
    return hashlib.sha256("\n".join(files).encode()).hexdigest()


@cache
def _annals() -> Annals:
    """One client for all invocations of this process, so that connections stay open."""
    return Annals(os.environ["ANNALS_URL"], os.environ["ANNALS_TOKEN"], deadline_s=DEADLINE_S)
