"""Deletes the history, tables and page of an organization from the lake of a stage.

The manifests of loads stay: they tell the history job which sessions it has loaded, so that none is loaded again.
"""

from collections.abc import Iterator
from typing import Any, Final

from chalicelib.domain.errors import Unwritable
from infra.deploy.stack import clients

LAKE: Final = "lake/"


def delete_from_lake(bucket: str, server: int, before_day: str | None = None) -> int:
    """Delete an organization's files, or those of days before `before_day`. Returns their number.

    Can be stopped and repeated.
    """
    s3 = clients.client("s3")
    deleted = 0
    for folder in _table_folders(s3, bucket):
        for page in _pages(s3, bucket, Prefix=f"{folder}server={server}/"):
            keys = [file["Key"] for file in page.get("Contents", ()) if _is_selected(file["Key"], before_day)]
            _delete(s3, bucket, keys)
            deleted += len(keys)
    if before_day is None:
        _delete(s3, bucket, [f"{LAKE}reports/report-{server}.html"])
    return deleted


def _table_folders(s3: Any, bucket: str) -> list[str]:
    """The folders that have a folder for each server."""
    partials = [kind for form in _folders(s3, bucket, f"{LAKE}_parts/") for kind in _folders(s3, bucket, form)]
    return [f"{LAKE}events/", *_folders(s3, bucket, f"{LAKE}reports/"), *partials]


def _folders(s3: Any, bucket: str, prefix: str) -> list[str]:
    pages = _pages(s3, bucket, Prefix=prefix, Delimiter="/")
    return [folder["Prefix"] for page in pages for folder in page.get("CommonPrefixes", ())]


def _pages(s3: Any, bucket: str, **query: str) -> Iterator[Any]:
    return iter(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **query))


def _is_selected(key: str, before_day: str | None) -> bool:
    day = key.partition("/day=")[2].partition("/")[0]
    return before_day is None or "" < day < before_day


def _delete(s3: Any, bucket: str, keys: list[str]) -> None:
    if keys:
        response = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
        if errors := response.get("Errors"):
            first = errors[0]
            raise Unwritable(f"S3 did not delete {first['Key']}: {first.get('Message') or first['Code']}")
