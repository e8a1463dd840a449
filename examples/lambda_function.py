"""A Lambda function that tells Annals of every file that arrives in a bucket.

Give it ANNALS_URL and ANNALS_TOKEN, and have S3 notify it of created objects. Lambda may hand it the same notification
more than once, and repeats it after a failure; the key that it publishes with makes that one event each.
"""

import hashlib
import os
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from annals_client import Annals, Json, NewEvent

DEADLINE_S = 10.0
"""Less than the function may run: who gives up in time is started again by Lambda."""


def handler(notification: dict[str, Any], context: object) -> dict[str, int]:  # noqa: ARG001  (Lambda gives it)
    """Publish what arrived: all of one notification in one commit."""
    records = notification["Records"]
    published = _annals().publish([arrival(record) for record in records], idempotency_key=key_of(records))
    return {"eventId": published.event_id}


def arrival(record: dict[str, Any]) -> NewEvent:
    """A file that has arrived, as an event."""
    bucket, file = record["s3"]["bucket"]["name"], record["s3"]["object"]
    return NewEvent(
        ["file", "arrived", bucket],
        key=f"/{bucket}/{unquote_plus(file['key'])}",
        payload=Json({"bytes": file["size"], "etag": file["eTag"]}),
        source_timestamp=datetime.fromisoformat(record["eventTime"]),
    )


def key_of(records: list[dict[str, Any]]) -> str:
    """The same for the same notification: S3 gives each change of an object a sequencer."""
    files = [f"{record['s3']['object']['key']} {record['s3']['object']['sequencer']}" for record in records]
    return hashlib.sha256("\n".join(files).encode()).hexdigest()


@cache
def _annals() -> Annals:
    """Made once for all invocations of this process; connections stay open."""
    return Annals(os.environ["ANNALS_URL"], os.environ["ANNALS_TOKEN"], deadline_s=DEADLINE_S)
