"""`make deploy` and `make destroy` as commands on an emulator.

The tests are one sequence on one stage, in order: refused, previewed, deployed, changed, protected, destroyed.
"""

import random
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.deploy.build.package import build_package
from infra.deploy.build.target import LOCAL
from infra.deploy.local.emulator import run_ministack
from tests.deploy.deployment import DEPLOY_TIMEOUT_S, REGION, aws_client, command, end
from tests.torture.servers import free_port

STAGE = "prod"
"""The stage with deletion protection by default."""
KEY = "JwtKey=a key of tests that is long enough"
PARAMETERS = (KEY, "MailFrom=annals@example.org", "GlueScripts=")
"""Without Glue scripts: ministack has no Glue workflows."""


@dataclass(frozen=True)
class Account:
    """An account on an emulator, and commands that run there."""

    endpoint: str
    package_folder: Path
    """Built once, because that takes longer than all tests."""

    def run(self, module: str, *arguments: str) -> tuple[int, str]:
        """Run a command without a terminal. Returns its exit code and output."""
        environment = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
        }
        package_folder = ("--package", str(self.package_folder)) if module == "deploy" else ()
        process = command(module, "--stage", STAGE, *package_folder, *arguments, **environment)
        try:
            output, _ = process.communicate(timeout=DEPLOY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            end(process)
            raise
        return process.returncode, output

    @contextmanager
    def aws(self, service: str) -> Iterator[Any]:
        client = aws_client(self.endpoint, service)
        yield client
        client.close()

    def parameters(self) -> Mapping[str, str] | None:
        """The parameters of the stack. None if there is no stack."""
        with self.aws("cloudformation") as cloudformation:
            try:
                (stack,) = cloudformation.describe_stacks(StackName=f"annals-{STAGE}")["Stacks"]
            except ClientError as error:
                if "does not exist" in str(error):
                    return None
                raise
        return {parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in stack["Parameters"]}

    def tables(self) -> list[str]:
        """The tables by logical id."""
        with self.aws("dynamodb") as dynamodb:
            return sorted(name.split("-")[2] for name in dynamodb.list_tables()["TableNames"])

    def buckets(self) -> list[str]:
        """All buckets except the packages' bucket."""
        with self.aws("s3") as s3:
            names = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
        return [name for name in names if not name.startswith("annals-packages-")]

    def jwt_key(self) -> str:
        """The key that functions verify tokens with."""
        with self.aws("lambda") as functions:
            function = next(
                item for item in functions.list_functions()["Functions"] if "Bearer" in item["FunctionName"]
            )
        return str(function["Environment"]["Variables"]["JWT_KEY"])


@pytest.fixture(scope="module", name="account")
def emulated_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    package_folder = build_package(STAGE, tmp_path_factory.mktemp("package"), LOCAL).folder
    with run_ministack(tmp_path_factory.mktemp("ministack"), free_port(random.Random())) as endpoint:
        yield Account(endpoint, package_folder)


def test_deploy_new_stage_without_issuer_or_key_fails(account: Account) -> None:
    code, output = account.run("deploy")
    assert (code, account.parameters(), account.buckets()) == (1, None, [])
    assert "Give OidcIssuer=https://" in output
    assert "JwtKey=$(openssl rand -hex 32)" in output


def test_deploy_unknown_parameter_lists_valid_ones(account: Account) -> None:
    code, output = account.run("deploy", "--yes", *PARAMETERS, "Colour=red")
    assert (code, account.parameters()) == (1, None)
    assert "unknown parameter Colour. Valid parameters: AlarmMail, " in output


def test_deploy_package_for_another_arch_is_refused(account: Account) -> None:
    code, output = account.run("deploy", "--yes", *PARAMETERS, "--arch", "arm64")
    assert (code, account.parameters()) == (2, None)
    assert "argument --arch: not allowed with argument --package" in output


def test_deploy_without_terminal_shows_changes_only(account: Account) -> None:
    code, output = account.run("deploy", *PARAMETERS)
    assert (code, account.parameters(), account.tables(), account.buckets()) == (1, None, [], [])
    assert re.search(r"^  Add +AWS::DynamoDB::Table +LogTable$", output, re.MULTILINE)
    assert "No terminal to answer the question: set YES=1" in output
    assert output.endswith("Nothing was changed.\n")


def test_deploy_uses_given_and_stage_parameters(account: Account) -> None:
    code, output = account.run("deploy", "--yes", *PARAMETERS)
    assert code == 0, output
    assert f"annals-{STAGE} is deployed:" in output
    assert account.tables() == ["LogTable", "ViewsTable"]
    parameters = account.parameters() or {}
    assert (parameters["MailFrom"], parameters["DeletionProtection"], parameters["LogRetentionDays"]) == (
        "annals@example.org",
        "true",
        "30",
    )
    assert f"JwtKey={account.jwt_key()}" == KEY


def test_deploy_again_changes_nothing(account: Account) -> None:
    code, output = account.run("deploy", "--yes")
    assert (code, "there is nothing to change" in output) == (0, True), output


def test_destroy_protected_stage_fails(account: Account) -> None:
    code, output = account.run("destroy", "--yes")
    assert (code, account.tables()) == (1, ["LogTable", "ViewsTable"])
    assert f"make deploy STAGE={STAGE} PARAMS='DeletionProtection=false'" in output


def test_deploy_one_parameter_keeps_the_others(account: Account) -> None:
    before = account.parameters() or {}
    code, output = account.run("deploy", "--yes", "--replace", "DeletionProtection=false")
    assert code == 0, output
    assert re.search(r"^  Modify +AWS::DynamoDB::Table +LogTable$", output, re.MULTILINE)
    assert account.parameters() == {**before, "DeletionProtection": "false"}
    assert f"JwtKey={account.jwt_key()}" == KEY


def test_destroy_unprotected_stage_deletes_all_data(account: Account) -> None:
    with account.aws("s3") as s3:
        (bucket,) = account.buckets()
        s3.put_object(Bucket=bucket, Key="lake/events/part.parquet", Body=b"content")
    code, output = account.run("destroy", "--yes")
    assert code == 0, output
    assert (account.parameters(), account.tables(), account.buckets()) == (None, [], [])
    assert output.endswith(f"annals-{STAGE} is deleted.\n")


def test_destroy_missing_stage_fails(account: Account) -> None:
    assert account.run("destroy", "--yes") == (1, f"Not destroyed: there is no stack annals-{STAGE}\n")
