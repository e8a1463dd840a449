"""Report pages, read from where the reports job writes them. Each organization has its own, named after its number."""

from pathlib import Path
from typing import Any

LINK_LIFETIME_S = 60

FOLDER = "reports"


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


class S3Pages:
    """Report pages in a lake in S3, `s3://bucket/prefix`."""

    def __init__(self, client: Any, lake_url: str) -> None:
        self._client = client
        self._bucket, _, self._prefix = lake_url.removeprefix("s3://").rstrip("/").partition("/")

    def link(self, server: int, name: str) -> str:
        """A presigned URL of a page. It needs no credentials and expires after `LINK_LIFETIME_S`."""
        key = "/".join(filter(None, (self._prefix, FOLDER, _file_name(server, name))))
        params = {"Bucket": self._bucket, "Key": key, "ResponseContentType": "text/html; charset=utf-8"}
        return str(self._client.generate_presigned_url("get_object", Params=params, ExpiresIn=LINK_LIFETIME_S))


def create_s3_client() -> Any:
    """An S3 client for presigned URLs. With the bucket in the host name they work in every region."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}))


def _file_name(server: int, name: str) -> str:
    return f"{name}-{server}.html"
