"""`make deploy` and `make destroy` as commands, against an endpoint that speaks like AWS: what they say, what they do.

The tests are one story of one stage, in order: it is refused, looked at, deployed, changed, protected, destroyed.
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

from infra.deploy.build.package import package
from infra.deploy.local.emulator import ministack
from tests.deploy.deployment import DEPLOY_S, REGION, aws_client, command, end
from tests.torture.servers import a_port

STAGE = "prod"
"""The one that is protected unless somebody says otherwise."""
KEY = "JwtKey=a key of tests that is long enough"
GIVEN = (KEY, "MailFrom=annals@example.org", "GlueScripts=")
"""Without scripts: the endpoint does not know workflows of Glue."""


@dataclass(frozen=True)
class Account:
    """An account on an endpoint, and the commands that are given there."""

    endpoint: str
    packaged: Path
    """Made once, as `make package` does: making it takes longer than all the rest."""

    def run(self, module: str, *arguments: str) -> tuple[int, str]:
        """Run a command with nobody there to answer; its exit code, and what it said."""
        environment = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
        }
        packaged = ("--package", str(self.packaged)) if module == "deploy" else ()
        process = command(module, "--stage", STAGE, *packaged, *arguments, **environment)
        try:
            said, _ = process.communicate(timeout=DEPLOY_S)
        except subprocess.TimeoutExpired:
            end(process)
            raise
        return process.returncode, said

    @contextmanager
    def aws(self, service: str) -> Iterator[Any]:
        """A client of one of AWS's services."""
        client = aws_client(self.endpoint, service)
        yield client
        client.close()

    def parameters(self) -> Mapping[str, str] | None:
        """What the stack was deployed with; None if there is no stack."""
        with self.aws("cloudformation") as cloudformation:
            try:
                (stack,) = cloudformation.describe_stacks(StackName=f"annals-{STAGE}")["Stacks"]
            except ClientError as refusal:
                if "does not exist" in str(refusal):
                    return None
                raise
        return {one["ParameterKey"]: one["ParameterValue"] for one in stack["Parameters"]}

    def tables(self) -> list[str]:
        """The tables by their names in the template."""
        with self.aws("dynamodb") as dynamodb:
            return sorted(name.split("-")[2] for name in dynamodb.list_tables()["TableNames"])

    def buckets(self) -> list[str]:
        """The buckets, but for that of packages."""
        with self.aws("s3") as s3:
            names = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
        return [name for name in names if not name.startswith("annals-packages-")]

    def jwt_key(self) -> str:
        """The key that functions check tokens with."""
        with self.aws("lambda") as functions:
            found = next(one for one in functions.list_functions()["Functions"] if "Bearer" in one["FunctionName"])
        return str(found["Environment"]["Variables"]["JWT_KEY"])


@pytest.fixture(scope="module", name="account")
def an_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    packaged = package(STAGE, tmp_path_factory.mktemp("package")).folder
    with ministack(tmp_path_factory.mktemp("ministack"), a_port(random.Random())) as endpoint:
        yield Account(endpoint, packaged)


def test_a_new_stage_needs_to_know_who_may_come_in(account: Account) -> None:
    code, said = account.run("deploy")
    assert (code, account.parameters(), account.buckets()) == (1, None, [])
    assert "Give OidcIssuer=https://" in said
    assert "JwtKey=$(openssl rand -hex 32)" in said


def test_a_parameter_that_is_none_is_refused_with_those_that_there_are(account: Account) -> None:
    code, said = account.run("deploy", "--yes", *GIVEN, "Colour=red")
    assert (code, account.parameters()) == (1, None)
    assert "there is no parameter Colour: there are AlarmMail, " in said


def test_without_an_answer_the_changes_are_shown_and_nothing_is_changed(account: Account) -> None:
    code, said = account.run("deploy", *GIVEN)
    assert (code, account.parameters(), account.tables(), account.buckets()) == (1, None, [], [])
    assert re.search(r"^  Add +AWS::DynamoDB::Table +LogTable$", said, re.MULTILINE)
    assert "Nobody is there to answer: say YES=1" in said
    assert said.endswith("Nothing was changed.\n")


def test_a_stage_is_deployed_with_what_was_given_and_what_stages_have(account: Account) -> None:
    code, said = account.run("deploy", "--yes", *GIVEN)
    assert code == 0, said
    assert f"annals-{STAGE} is deployed:" in said
    assert account.tables() == ["LogTable", "ViewsTable"]
    found = account.parameters() or {}
    assert (found["MailFrom"], found["DeletionProtection"], found["LogRetentionDays"]) == (
        "annals@example.org",
        "true",
        "30",
    )
    assert f"JwtKey={account.jwt_key()}" == KEY


def test_what_is_deployed_again_has_nothing_to_change(account: Account) -> None:
    code, said = account.run("deploy", "--yes")
    assert (code, "there is nothing to change" in said) == (0, True), said


def test_a_protected_stage_is_not_destroyed(account: Account) -> None:
    code, said = account.run("destroy", "--yes")
    assert (code, account.tables()) == (1, ["LogTable", "ViewsTable"])
    assert f"make deploy STAGE={STAGE} PARAMS='DeletionProtection=false'" in said


def test_a_parameter_is_changed_and_the_others_stay(account: Account) -> None:
    before = account.parameters() or {}
    code, said = account.run("deploy", "--yes", "--replace", "DeletionProtection=false")
    assert code == 0, said
    assert re.search(r"^  Modify +AWS::DynamoDB::Table +LogTable$", said, re.MULTILINE)
    assert account.parameters() == {**before, "DeletionProtection": "false"}
    assert f"JwtKey={account.jwt_key()}" == KEY


def test_a_stage_that_is_not_protected_is_destroyed_with_all_that_it_holds(account: Account) -> None:
    with account.aws("s3") as s3:
        (bucket,) = account.buckets()
        s3.put_object(Bucket=bucket, Key="lake/events/part.parquet", Body=b"what there was")
    code, said = account.run("destroy", "--yes")
    assert code == 0, said
    assert (account.parameters(), account.tables(), account.buckets()) == (None, [], [])
    assert said.endswith(f"annals-{STAGE} is gone.\n")


def test_what_is_not_there_is_not_destroyed(account: Account) -> None:
    assert account.run("destroy", "--yes") == (1, f"Not destroyed: there is no stack annals-{STAGE}\n")
