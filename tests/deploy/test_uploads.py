"""The bucket for deployment files."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from infra.deploy.stack import clients
from infra.deploy.stack.uploads import Uploads, domain_of_region

ACCOUNT = "000000000000"


def test_every_call_names_the_expected_bucket_owner(
    ministack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the bucket can be guessed, so another account may have created it."""
    calls: dict[str, str | None] = {}

    def record(params: dict[str, Any], model: Any, **_: object) -> None:
        calls[model.name] = params.get("ExpectedBucketOwner")

    def recording_client(service: str) -> Any:
        client = create_client(service)
        client.meta.events.register("before-parameter-build.s3", record)
        return client

    create_client = clients.client
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-central-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv(clients.ENDPOINT_VARIABLE, ministack)
    monkeypatch.setattr(clients, "client", recording_client)
    (tmp_path / "a.txt").write_text("content")
    uploads = Uploads(f"packages-{uuid.uuid4().hex}")
    uploads.upload_file(tmp_path / "a.txt")
    uploads.upload_folder(tmp_path)
    assert calls.pop("CreateBucket") is None
    assert calls == dict.fromkeys(["HeadBucket", "PutPublicAccessBlock", "HeadObject", "PutObject"], ACCOUNT)


@pytest.mark.parametrize(
    ("region", "domain"),
    [("eu-central-1", "amazonaws.com"), ("cn-north-1", "amazonaws.com.cn"), ("eusc-de-east-1", "amazonaws.eu")],
)
def test_domain_of_region_knows_all_partitions(region: str, domain: str) -> None:
    assert domain_of_region(region) == domain
