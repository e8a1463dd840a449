"""A first deployment that fails can be repeated, and removed."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.deploy.stack.clients import ENDPOINT_VARIABLE, client
from infra.deploy.stack.deploy import clear_failed_creation
from infra.deploy.stack.destroy import destroy
from infra.deploy.stack.stacks import Stack, StackFailed
from infra.deploy.stack.uploads import Uploads
from tests.deploy.deployment import eventually

STAGE = "test"
RETAINED = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
TABLES = ("LogTable", "ViewsTable")


@dataclass(frozen=True)
class Account:
    """Deploys a small template with Annals' retained resources. The creation of a broken one fails at its end."""

    folder: Path
    name: str

    @property
    def export_bucket(self) -> str:
        return f"exports-{self.name}"

    @property
    def stack(self) -> Stack:
        return Stack(f"annals-{STAGE}")

    def template_url(self, is_protected: bool, is_broken: bool) -> str:
        table = {
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "server", "AttributeType": "N"}],
            "KeySchema": [{"AttributeName": "server", "KeyType": "HASH"}],
            "DeletionProtectionEnabled": is_protected,
        }
        tables: dict[str, Any] = {
            name: {"Type": "AWS::DynamoDB::Table", **RETAINED, "Properties": table} for name in TABLES
        }
        others: dict[str, Any] = {
            "ExportBucket": {"Type": "AWS::S3::Bucket", **RETAINED, "Properties": {"BucketName": self.export_bucket}},
        }
        if is_broken:
            others["Handle"] = {"Type": "AWS::CloudFormation::WaitConditionHandle"}
            others["NeverReady"] = {
                "Type": "AWS::CloudFormation::WaitCondition",
                "DependsOn": [*TABLES, "ExportBucket"],
                "Properties": {"Handle": {"Ref": "Handle"}, "Timeout": "1"},
            }
        protection = {"Type": "String", "Default": "true" if is_protected else "false"}
        path = self.folder / "template.json"
        path.write_text(
            json.dumps({"Parameters": {"DeletionProtection": protection}, "Resources": {**tables, **others}})
        )
        uploads = Uploads()
        return uploads.url(uploads.upload_file(path))

    def create(self, is_protected: bool = False, is_broken: bool = False) -> None:
        """Create the stack with a change set."""
        change_set = self.stack.create_change_set(self.template_url(is_protected, is_broken), {}, frozenset())
        list(change_set.execute())

    def fail_like_first_version(self, is_protected: bool = False) -> None:
        """Fail to create the stack, with CloudFormation's defaults: retained resources stay after the rollback."""
        url = self.template_url(is_protected, is_broken=True)
        client("cloudformation").create_stack(StackName=self.stack.name, TemplateURL=url)
        eventually(lambda: (self.stack.description() or {}).get("StackStatus") == "ROLLBACK_COMPLETE")
        assert (len(self.tables()), self.buckets()) == (2, [self.export_bucket])

    def tables(self) -> list[str]:
        names = client("dynamodb").list_tables()["TableNames"]
        return [name for name in names if name.startswith(f"annals-{STAGE}-")]

    def buckets(self) -> list[str]:
        names = [bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]]
        return sorted(name for name in names if name.endswith(self.name))

    def leftovers(self) -> tuple[list[str], list[str], bool]:
        return self.tables(), self.buckets(), self.stack.description() is not None


@pytest.fixture(name="account")
def blocked_account(ministack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """An account on an emulator ."""
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-central-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv(ENDPOINT_VARIABLE, ministack)
    account = Account(tmp_path, uuid.uuid4().hex[:12])
    yield account
    if account.stack.description() is not None:
        list(account.stack.delete())
    for table in account.tables():
        client("dynamodb").update_table(TableName=table, DeletionProtectionEnabled=False)
        client("dynamodb").delete_table(TableName=table)


def test_failed_creation_leaves_nothing_and_says_why(account: Account) -> None:
    with pytest.raises(StackFailed, match="NeverReady: "):
        account.create(is_broken=True)
    assert account.leftovers() == ([], [], False)
    account.create()
    assert len(account.tables()) == 2


def test_failed_creation_with_protected_tables_is_repeatable(account: Account) -> None:
    """DynamoDB refuses to delete protected tables, so CloudFormation cannot delete the stack."""
    with pytest.raises(StackFailed, match="NeverReady: "):
        account.create(is_protected=True, is_broken=True)
    assert clear_failed_creation(account.stack, lambda _: True)
    account.create(is_protected=True)
    assert len(account.tables()) == 2


@pytest.mark.parametrize("is_protected", [False, True])
def test_rolled_back_stack_is_removed_before_creation(account: Account, is_protected: bool) -> None:
    account.fail_like_first_version(is_protected)
    assert not clear_failed_creation(account.stack, lambda _: False)
    assert account.stack.description() is not None
    assert clear_failed_creation(account.stack, lambda _: True)
    assert account.leftovers() == ([], [], False)
    account.create()


@pytest.mark.parametrize("is_protected", [False, True])
def test_destroy_removes_failed_creation(account: Account, is_protected: bool) -> None:
    account.fail_like_first_version(is_protected)
    destroy(STAGE, is_interactive=False)
    assert account.leftovers() == ([], [], False)


def test_failed_creation_with_events_is_not_removed(account: Account) -> None:
    account.fail_like_first_version()
    (table, _) = account.tables()
    client("dynamodb").put_item(TableName=table, Item={"server": {"N": "1"}})
    with pytest.raises(StackFailed, match=f"{table} is not empty"):
        destroy(STAGE, is_interactive=False)
    assert len(account.tables()) == 2


def test_failed_creation_keeps_bucket_of_another_stack(account: Account) -> None:
    client("s3").create_bucket(
        Bucket=account.export_bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    with pytest.raises(StackFailed, match="Validation failed"):
        account.create()
    clear_failed_creation(account.stack, lambda _: True)
    assert account.leftovers() == ([], [account.export_bucket], False)


def test_clear_failed_creation_keeps_healthy_stack(account: Account) -> None:
    account.create()
    assert clear_failed_creation(account.stack, lambda _: False)
    assert len(account.tables()) == 2
