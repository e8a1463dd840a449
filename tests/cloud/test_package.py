"""The package as `make package` makes it: what Lambda needs, and a template with all of ours in it."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infra.cloud.package import package, template


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("package")
    package("dev", found)
    return found


def test_the_archive_holds_the_app_and_nothing_that_lambda_does_not_need(folder: Path) -> None:
    with zipfile.ZipFile(folder / "deployment.zip") as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
    assert {"app.py", "chalicelib", "pydantic", "jinja2", "jwt"} <= names
    assert names & {"infra", "glue_jobs", "tests", "benchmarks", "docs", "boto3", "botocore", "data", "build"} == set()


def test_the_template_has_what_chalice_makes_and_all_that_is_ours(folder: Path) -> None:
    whole: dict[str, Any] = json.loads((folder / "sam.json").read_text())
    for section, named in template().items():
        assert named.keys() <= whole[section].keys()
    functions = [name for name, one in whole["Resources"].items() if one["Type"] == "AWS::Serverless::Function"]
    ours = ["Bearer", "Clean", "Deliver", "Export", "Exported", "Ingest", "Observe", "Project", "Publish", "Reported"]
    assert sorted(functions) == ["APIHandler", *ours]


def test_every_role_has_the_policy_of_its_function(folder: Path) -> None:
    resources = json.loads((folder / "sam.json").read_text())["Resources"]
    sends_mail = [name for name, one in resources.items() if "ses:SendEmail" in json.dumps(one)]
    assert sends_mail == ["DeliverRole"]
