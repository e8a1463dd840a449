"""The pages of reports, where the jobs that make them put them: one for each organization, by its number."""

from pathlib import Path
from typing import Any

PRESIGNED_S = 60
"""So long a link to S3 works."""

FOLDER = "reports"


class FilePages:
    """Pages in the lake on this machine."""

    def __init__(self, lake: Path) -> None:
        self._folder = lake / FOLDER

    def page(self, server: int, name: str) -> str | None:
        """The page; None if there is none."""
        try:
            return (self._folder / _file(server, name)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


class S3Pages:
    """Pages in the lake in S3, `s3://bucket/prefix`."""

    def __init__(self, client: Any, lake_url: str) -> None:
        self._client = client
        self._bucket, _, self._prefix = lake_url.removeprefix("s3://").rstrip("/").partition("/")

    def link(self, server: int, name: str) -> str:
        """Where the page can be read for a minute by whoever has the link."""
        key = "/".join(filter(None, (self._prefix, FOLDER, _file(server, name))))
        of_page = {"Bucket": self._bucket, "Key": key, "ResponseContentType": "text/html; charset=utf-8"}
        return str(self._client.generate_presigned_url("get_object", Params=of_page, ExpiresIn=PRESIGNED_S))


def s3_client() -> Any:
    """A client that signs links; with the bucket in the host's name, they are good in every region."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}))


def _file(server: int, name: str) -> str:
    return f"{name}-{server}.html"
