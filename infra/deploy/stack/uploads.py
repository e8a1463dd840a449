"""Uploads: what is deployed goes through a bucket, each file under the hash of its content."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from botocore.exceptions import ClientError

from infra.deploy.stack import clients


class Uploads:
    """The bucket of packages, made when first needed."""

    def __init__(self, bucket: str | None = None) -> None:
        self.bucket = bucket or f"annals-packages-{clients.account()}-{clients.region()}"
        self._s3 = clients.client("s3")
        self._make()

    def file(self, path: Path) -> str:
        """Upload one file, unless it is there; its key."""
        content = path.read_bytes()
        return self._put(f"{_hash(content)}/{path.name}", content)

    def folder(self, folder: Path) -> str:
        """Upload the files of a directory, all or none under the hash of all; the address of their prefix."""
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        prefix = _hash(b"".join(hashlib.sha256(content).digest() for content in files.values()))
        for name, content in files.items():
            self._put(f"{prefix}/{name}", content)
        return f"s3://{self.bucket}/{prefix}"

    def url(self, key: str) -> str:
        """The address of a file as CloudFormation wants it."""
        place = clients.endpoint()
        if place:
            return f"{place}/{self.bucket}/{key}"
        return f"https://{self.bucket}.s3.{clients.region()}.{_suffix(clients.region())}/{key}"

    def _put(self, key: str, content: bytes) -> str:
        if not self._has(key):
            self._s3.put_object(Bucket=self.bucket, Key=key, Body=content)
        return key

    def _has(self, key: str) -> bool:
        return _found(lambda: self._s3.head_object(Bucket=self.bucket, Key=key))

    def _make(self) -> None:
        if _found(lambda: self._s3.head_bucket(Bucket=self.bucket)):
            return
        where = clients.region()
        # The oldest region is the only one that may not be named.
        place = {} if where == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": where}}
        self._s3.create_bucket(Bucket=self.bucket, **place)
        private = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        self._s3.put_public_access_block(
            Bucket=self.bucket, PublicAccessBlockConfiguration=dict.fromkeys(private, True)
        )


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _suffix(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def _found(look: Callable[[], object]) -> bool:
    try:
        look()
    except ClientError as refusal:
        if refusal.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True
