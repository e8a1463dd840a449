"""Uploads deployment files to a bucket, each under the hash of its content."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from botocore.exceptions import ClientError

from infra.deploy.stack import clients


class Uploads:
    """The bucket for deployment files. Created on first use."""

    def __init__(self, bucket: str | None = None) -> None:
        account = clients.account()
        self.bucket = bucket or f"annals-packages-{account}-{clients.region()}"
        # The name can be guessed. S3 refuses every call if the bucket belongs to another account.
        self._owner = {"Bucket": self.bucket, "ExpectedBucketOwner": account}
        self._s3 = clients.client("s3")
        self._create_bucket()

    def upload_file(self, path: Path) -> str:
        """Upload a file unless the bucket has it. Returns its key."""
        content = path.read_bytes()
        return self._upload(f"{_hash(content)}/{path.name}", content)

    def upload_folder(self, folder: Path) -> str:
        """Upload the files of a directory under one prefix, the hash of all of them. Returns the prefix's S3 URL."""
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        prefix = _hash(b"".join(hashlib.sha256(content).digest() for content in files.values()))
        for name, content in files.items():
            self._upload(f"{prefix}/{name}", content)
        return f"s3://{self.bucket}/{prefix}"

    def url(self, key: str) -> str:
        """The HTTP URL of a file, which CloudFormation requires for templates."""
        endpoint = clients.endpoint()
        if endpoint:
            return f"{endpoint}/{self.bucket}/{key}"
        return f"https://{self.bucket}.s3.{clients.region()}.{domain_of_region(clients.region())}/{key}"

    def _upload(self, key: str, content: bytes) -> str:
        if not _exists(lambda: self._s3.head_object(**self._owner, Key=key)):
            self._s3.put_object(**self._owner, Key=key, Body=content)
        return key

    def _create_bucket(self) -> None:
        if _exists(lambda: self._s3.head_bucket(**self._owner)):
            return
        region = clients.region()
        # S3 rejects us-east-1 as a location constraint.
        location = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        self._s3.create_bucket(Bucket=self.bucket, **location)
        private = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        self._s3.put_public_access_block(**self._owner, PublicAccessBlockConfiguration=dict.fromkeys(private, True))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def domain_of_region(region: str) -> str:
    suffixes = {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}
    return suffixes.get(region.partition("-")[0], "amazonaws.com")


def _exists(head: Callable[[], object]) -> bool:
    try:
        head()
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True
