"""The package as `make package` makes it: what Lambda and Glue need and no more, and a template that AWS takes."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.deploy.build import archives
from infra.deploy.build.package import ROOT, Package, package, template
from infra.deploy.stack.deploy import expanded
from tests.issuing import AUDIENCE, Issuer, signed

EVENTS = ROOT / "tests" / "events"
MOST_BYTES = 12_000_000
"""Of functions, unpacked: every cold start reads them."""
OF_LAMBDA = ("boto3", "botocore", "s3transfer", "urllib3", "jmespath", "dateutil", "six.py")
"""What is on Lambda whether it is packaged or not."""
CALLED = """
import importlib, json, sys
sys.path[:0] = sys.argv[1:3]
module, _, name = sys.argv[3].rpartition(".")
print(json.dumps(getattr(importlib.import_module(module), name)(json.load(sys.stdin), None)))
"""
LOADED = """
import glue_jobs.reports
from jinja2 import PackageLoader
print(PackageLoader("glue_jobs.page").list_templates())
"""
SPLIT = """
import sys
from pathlib import Path
from infra.deploy.build.archives import write_both
write_both(*map(Path, sys.argv[1:]))
"""


@pytest.fixture(scope="module", name="made")
def a_package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return package("dev", tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module", name="runtime")
def a_runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what Lambda itself has."""
    folder = tmp_path_factory.mktemp("runtime")
    (packages,) = (ROOT / ".venv-ministack" / "lib").glob("python*/site-packages")
    for name in OF_LAMBDA:
        (folder / name).symlink_to(packages / name)
    return folder


@pytest.fixture(name="issuer")
def an_issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.close()


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


def resources(made: Package) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.template.read_text())["Resources"]
    return found


def answer(archive: Path, runtime: Path, handler: str, event: object, **environment: str) -> Any:
    """What a function answers in a process that has its archive, what Lambda has, and nothing else."""
    task = runtime / archive.stem
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(task)
    command = [sys.executable, "-I", "-S", "-c", CALLED, str(task), str(runtime), handler]
    own = {"AWS_LAMBDA_FUNCTION_NAME": "annals", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    ended = subprocess.run(
        command,
        input=json.dumps(event),
        env={"PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "eu-central-1", **own, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def payload(name: str) -> dict[str, Any]:
    """A stored Lambda event."""
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


# Archives.


def test_the_archive_holds_the_app_and_nothing_that_lambda_does_not_need(made: Package) -> None:
    found = {name.partition("/")[0] for name in names(made.functions)}
    assert {"app.py", "chalicelib", "pydantic", "jinja2"} <= found
    assert found & {"infra", "glue_jobs", "tests", "benchmarks", "docs", "data", "build"} == set()
    assert found & {"boto3", "botocore", "jwt", "cryptography"} == set()


def test_only_the_authorizer_has_what_checks_signatures(made: Package) -> None:
    assert {"jwt", "cryptography"} <= {name.partition("/")[0] for name in names(made.authorizer)}
    separate = [name for name, one in resources(made).items() if "authorizer.zip" in json.dumps(one)]
    assert separate == ["Bearer"]


def test_the_archive_is_small(made: Package) -> None:
    assert archives.unpacked_bytes(made.functions) <= MOST_BYTES


def test_the_archive_alone_answers_requests(
    made: Package, runtime: Path, ministack: str, ministack_tables: tuple[str, str]
) -> None:
    settings = {"LOG_TABLE": ministack_tables[0], "VIEWS_TABLE": ministack_tables[1], "AWS_ENDPOINT_URL": ministack}
    event = payload("api_gateway_get_health")
    found = answer(made.functions, runtime, "app.app", event, STORE="dynamodb", **settings)
    assert (found["statusCode"], json.loads(found["body"])["status"]) == (200, "ok")


def test_the_authorizer_alone_knows_the_tokens_of_an_issuer(made: Package, runtime: Path, issuer: Issuer) -> None:
    event = {**payload("api_gateway_authorizer"), "authorizationToken": signed(issuer.claims())}
    handler = resources(made)["Bearer"]["Properties"]["Handler"]
    settings = {"STORE": "dynamodb", "OIDC_ISSUER": issuer.url, "OIDC_AUDIENCE": AUDIENCE}
    found = answer(made.authorizer, runtime, handler, event, **settings)
    assert (found["principalId"], json.loads(found["context"]["organizations"])) == ("anna", ["acme", "other"])
    assert found["policyDocument"]["Statement"][0]["Effect"] == "Allow"


def test_the_same_files_make_the_same_archive_in_whatever_process(tmp_path: Path) -> None:
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        for path in [ROOT / "app.py", *sorted((ROOT / "chalicelib").rglob("*.py"))]:
            archive.write(path, path.relative_to(ROOT))
    shutil.copytree(Path(httpx.__file__).parent, tmp_path / "dependencies" / "httpx")
    made = []
    for seed in ("1", "2"):
        both = [tmp_path / f"functions-{seed}.zip", tmp_path / f"authorizer-{seed}.zip"]
        paths = [whole, tmp_path / "dependencies", *both]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", SPLIT, *map(str, paths)], cwd=ROOT, env=environment, check=True)
        made.append([path.read_bytes() for path in both])
    assert made[0] == made[1]


# The template.


def test_the_template_has_what_chalice_makes_and_all_that_is_ours(made: Package) -> None:
    whole: dict[str, Any] = json.loads(made.template.read_text())
    for section, named in template().items():
        assert named.keys() <= whole[section].keys()
    functions = [name for name, one in whole["Resources"].items() if one["Type"] == "AWS::Serverless::Function"]
    plain = ["Bearer", "Clean", "Deliver", "Export", "Exported", "Ingest", "Observe", "Project", "Publish", "Reported"]
    assert sorted(functions) == sorted(["APIHandler", "Reader", "Tester", *plain])


def test_every_role_has_the_policy_of_its_function(made: Package) -> None:
    assert [name for name, one in resources(made).items() if "ses:SendEmail" in json.dumps(one)] == ["DeliverRole"]


def test_a_linter_that_knows_aws_finds_nothing_in_the_template(made: Package) -> None:
    linter = ROOT / ".venv-sam" / "bin" / "cfn-lint"
    ended = subprocess.run([linter, made.template], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_template_says_the_same_without_sam(made: Package) -> None:
    whole = json.loads(made.template.read_text())
    for resource in whole["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/key"
    found = expanded(whole)
    kinds = {name: resource["Type"] for name, resource in found["Resources"].items()}
    assert "Transform" not in found
    assert not [name for name, kind in kinds.items() if kind.startswith("AWS::Serverless::")]
    assert whole["Resources"].keys() <= kinds.keys()
    assert (kinds["Reader"], kinds["RestAPI"]) == ("AWS::Lambda::Function", "AWS::ApiGateway::RestApi")


# What Glue runs.


def test_the_archive_of_jobs_holds_their_files_and_nothing_compiled(made: Package) -> None:
    found = names(made.scripts / "glue_jobs.zip")
    sources = [path for path in (ROOT / "glue_jobs").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sorted(found) == sorted(str(path.relative_to(ROOT)) for path in sources)
    assert {"glue_jobs/page/templates/report.html.j2", "glue_jobs/spark/log4j2.properties"} <= set(found)


def test_the_scripts_start_from_the_archive_alone(made: Package, tmp_path: Path) -> None:
    """Plain processes, from elsewhere, with nothing of ours but the archive; the tests of Spark run the jobs whole."""
    spark = ROOT / ".venv-spark" / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(made.scripts / "glue_jobs.zip")}
    for job in ("history", "reports"):
        command = [str(spark), str(made.scripts / f"{job}.py"), "--help"]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "--lake" in ended.stdout
    found = subprocess.run([str(spark), "-c", LOADED], cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert b"report.html.j2" in found.stdout
