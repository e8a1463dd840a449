"""Report pages, read from where the reports job writes them. Each organization has its own, named after its number.

The lake also has the names of the organizations for the titles of the pages, and a list of new pages for each run.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LINK_LIFETIME_S = 60

FOLDER = "reports"
NEW_PAGES = "_new_pages"
ORGANIZATIONS = "_organizations.json"


class FilePages:
    """Report pages in a local lake."""

    def __init__(self, lake: Path) -> None:
        self._folder = lake / FOLDER

    def page(self, server: int, name: str) -> str | None:
        """The HTML of a page, or None if it does not exist."""
        try:
            return (self._folder / _file_name(server, name)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def new_periods(self, run: str) -> dict[int, Mapping[str, str]]:
        """The first and last day of each page with news of a run, by server."""
        return _periods((self._folder.parent / NEW_PAGES / f"{run}.json").read_bytes())


class S3Pages:
    """Report pages in a lake in S3, `s3://bucket/prefix`."""

    def __init__(self, client: Any, lake_url: str) -> None:
        self._client = client
        self._bucket, _, self._prefix = lake_url.removeprefix("s3://").rstrip("/").partition("/")

    def link(self, server: int, name: str) -> str:
        """A presigned URL of a page. It needs no credentials and expires after `LINK_LIFETIME_S`."""
        key = self._key(f"{FOLDER}/{_file_name(server, name)}")
        params = {"Bucket": self._bucket, "Key": key, "ResponseContentType": "text/html; charset=utf-8"}
        return str(self._client.generate_presigned_url("get_object", Params=params, ExpiresIn=LINK_LIFETIME_S))

    def new_periods(self, run: str) -> dict[int, Mapping[str, str]]:
        """The first and last day of each page with news of a run, by server."""
        response = self._client.get_object(Bucket=self._bucket, Key=self._key(f"{NEW_PAGES}/{run}.json"))
        with response["Body"] as body:
            return _periods(body.read())

    def save_names(self, names: Mapping[int, str]) -> None:
        """Save the names of the organizations by server, for the titles of the pages."""
        self._client.put_object(Bucket=self._bucket, Key=self._key(ORGANIZATIONS), Body=json.dumps(names).encode())

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path


def create_s3_client() -> Any:
    """An S3 client for presigned URLs. With the bucket in the host name they work in every region."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}))


def _periods(content: bytes) -> dict[int, Mapping[str, str]]:
    return {page["server"]: page["period"] for page in json.loads(content)["pages"]}


def _file_name(server: int, name: str) -> str:
    return f"{name}-{server}.html"
