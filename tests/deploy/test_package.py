"""The package of `make package`: only what Lambda and Glue need, and a template that AWS accepts."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.deploy.build import archives
from infra.deploy.build.package import ROOT, Package, build_package, load_template, print_summary
from infra.deploy.build.route_functions import remove_authorizer
from infra.deploy.build.target import DEFAULT_ARCH, LOCAL, TARGETS, Target
from tests.deploy.linting import expand, lint, with_hub, without_hub
from tests.oidc_issuer import AUDIENCE, Issuer, sign

EVENTS = ROOT / "tests" / "events"
MAX_BYTES = 13_500_000
"""Unpacked size of the functions. Every cold start reads them."""
LAMBDA_PACKAGES = ("boto3", "botocore", "s3transfer", "urllib3", "jmespath", "dateutil", "six.py")
"""Packages that Lambda's runtime provides."""
CALL_SCRIPT = """
import importlib, json, sys
sys.path[:0] = sys.argv[1:3]
module, _, name = sys.argv[3].rpartition(".")
print(json.dumps(getattr(importlib.import_module(module), name)(json.load(sys.stdin), None)))
"""
LOAD_SCRIPT = """
import glue_jobs.reports
from jinja2 import PackageLoader
print(PackageLoader("glue_jobs.page").list_templates())
"""
SPLIT_SCRIPT = """
import sys
from pathlib import Path
from infra.deploy.build.archives import write_archives
write_archives(*map(Path, sys.argv[1:]))
"""
ELF_MACHINES = {"arm64": 183, "x86_64": 62}
LAMBDA_GLIBC = (2, 34)
"""Of Amazon Linux 2023."""

Build = Callable[[str], Package]


@pytest.fixture(scope="module", name="build")
def package_builder(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds the package for an architecture on AWS, once."""
    return cache(lambda arch: build_package("dev", tmp_path_factory.mktemp("package"), TARGETS[arch]))


@pytest.fixture(scope="module", name="package")
def default_package(build: Build) -> Package:
    return build(DEFAULT_ARCH)


@pytest.fixture(scope="module", name="runtime")
def lambda_runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the packages of Lambda's runtime."""
    folder = tmp_path_factory.mktemp("runtime")
    (packages,) = (ROOT / ".venv-ministack" / "lib").glob("python*/site-packages")
    for name in LAMBDA_PACKAGES:
        (folder / name).symlink_to(packages / name)
    return folder


@pytest.fixture(name="issuer")
def running_issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.close()


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


def resources(package: Package) -> dict[str, Any]:
    template_resources: dict[str, Any] = json.loads(package.template.read_text())["Resources"]
    return template_resources


def invoke(python: Path, archive: Path, runtime: Path, handler: str, event: object, **environment: str) -> Any:
    """Invoke a function in a process with its archive and Lambda's packages only."""
    task = runtime / archive.stem
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(task)
    command = [str(python), "-I", "-S", "-c", CALL_SCRIPT, str(task), str(runtime), handler]
    credentials = {"AWS_LAMBDA_FUNCTION_NAME": "annals", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    process = subprocess.run(
        command,
        input=json.dumps(event),
        env={"PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "eu-central-1", **credentials, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def payload(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


# Archives.


def test_functions_archive_has_app_and_dependencies_only(package: Package) -> None:
    top_level = {name.partition("/")[0] for name in names(package.functions)}
    assert {"app.py", "chalicelib", "pydantic", "jinja2"} <= top_level
    assert top_level & {"infra", "glue_jobs", "tests", "benchmarks", "docs", "data", "build"} == set()
    assert top_level & {"boto3", "botocore", "jwt", "cryptography"} == set()


def test_token_packages_are_in_authorizer_archive_only(package: Package) -> None:
    assert {"jwt", "cryptography"} <= {name.partition("/")[0] for name in names(package.authorizer)}
    separate = [name for name, resource in resources(package).items() if "authorizer.zip" in json.dumps(resource)]
    assert separate == ["Bearer"]


def test_functions_archive_size_is_limited(package: Package) -> None:
    assert archives.unpacked_bytes(package.functions) <= MAX_BYTES


def test_functions_archive_alone_answers_requests(
    build: Build, python_of_lambda: Path, runtime: Path, ministack: str, ministack_tables: tuple[str, str]
) -> None:
    settings = {"LOG_TABLE": ministack_tables[0], "VIEWS_TABLE": ministack_tables[1], "AWS_ENDPOINT_URL": ministack}
    event = payload("api_gateway_get_health")
    archive = build(LOCAL.architecture).functions
    response = invoke(python_of_lambda, archive, runtime, "app.app", event, STORE="dynamodb", **settings)
    assert (response["statusCode"], json.loads(response["body"])["status"]) == (200, "ok")


def test_authorizer_archive_alone_verifies_tokens(
    build: Build, python_of_lambda: Path, runtime: Path, issuer: Issuer
) -> None:
    package = build(LOCAL.architecture)
    event = {**payload("api_gateway_authorizer"), "authorizationToken": sign(issuer.claims())}
    handler = resources(package)["Bearer"]["Properties"]["Handler"]
    settings = {"STORE": "dynamodb", "OIDC_ISSUER": issuer.url, "OIDC_AUDIENCE": AUDIENCE}
    response = invoke(python_of_lambda, package.authorizer, runtime, handler, event, **settings)
    assert (response["principalId"], json.loads(response["context"]["organizations"])) == ("anna", ["acme", "other"])
    assert response["policyDocument"]["Statement"][0]["Effect"] == "Allow"


@pytest.mark.parametrize("arch", ELF_MACHINES)
def test_binaries_are_for_target(build: Build, arch: str) -> None:
    with zipfile.ZipFile(build(arch).authorizer) as opened:
        binaries = {name: opened.read(name) for name in opened.namelist() if ".so" in Path(name).suffixes}
    assert binaries
    for name, content in binaries.items():
        assert (content[:4], int.from_bytes(content[18:20], "little")) == (b"\x7fELF", ELF_MACHINES[arch]), name
        assert ".cpython-313-" in name or name.endswith(".abi3.so")
        needed = re.findall(rb"GLIBC_(\d+)\.(\d+)", content)
        assert max((int(major), int(minor)) for major, minor in needed) <= LAMBDA_GLIBC, name


@pytest.fixture(name="inputs")
def archive_inputs(tmp_path: Path) -> tuple[Path, Path]:
    """The archive of the app, and a directory with a dependency."""
    app, dependencies = tmp_path / "app.zip", tmp_path / "dependencies"
    with zipfile.ZipFile(app, "w") as archive:
        for path in [ROOT / "app.py", *sorted((ROOT / "chalicelib").rglob("*.py"))]:
            archive.write(path, path.relative_to(ROOT))
    shutil.copytree(Path(httpx.__file__).parent, dependencies / "httpx")
    return app, dependencies


def test_write_archives_any_builder_gives_same_bytes(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """The build depends neither on the order of sets nor on the Python that runs it, only on the one that compiles."""
    others = (Target(version, LOCAL.architecture).find_python() for version in ("3.13", "3.12", "3.11"))
    other = next((path for path in others if path and path != Path(sys.executable)), sys.executable)
    package = []
    for seed, builder in (("1", sys.executable), ("2", other)):
        both = [tmp_path / f"functions-{seed}.zip", tmp_path / f"authorizer-{seed}.zip"]
        command = [builder, "-c", SPLIT_SCRIPT, *inputs, *both, sys.executable]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
        package.append([path.read_bytes() for path in both])
    assert package[0] == package[1]


def test_write_archives_without_python_keeps_sources(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = Package(tmp_path)
    archives.write_archives(*inputs, package.functions, package.authorizer, None)
    assert {"app.py", "chalicelib/settings.py", "httpx/_client.py"} <= set(names(package.functions))
    assert not [name for name in names(package.functions) if name.endswith(".pyc")]
    package.template.write_text('{"Globals": {"Function": {"Runtime": "python3.13", "Architectures": ["arm64"]}}}')
    print_summary("dev", package)
    assert "there is no python3.13 in the path or in pyenv to compile them" in capsys.readouterr().out


# The template.


def test_template_has_chalice_and_own_resources(package: Package) -> None:
    template: dict[str, Any] = json.loads(package.template.read_text())
    for section, entries in load_template().items():
        assert entries.keys() <= template[section].keys()
    functions = [
        name for name, resource in template["Resources"].items() if resource["Type"] == "AWS::Serverless::Function"
    ]
    lambda_functions = [
        "Bearer",
        "Clean",
        "Deliver",
        "Export",
        "Exported",
        "Ingest",
        "Observe",
        "Project",
        "Publish",
        "Reported",
    ]
    assert sorted(functions) == sorted(["APIHandler", "Reader", "Tester", *lambda_functions])


def test_only_deliver_and_hub_roles_may_send_mail(package: Package) -> None:
    roles = [name for name, role in resources(package).items() if "ses:SendEmail" in json.dumps(role)]
    assert roles == ["DeliverRole", "HubTaskRole"]


@pytest.fixture(scope="module", name="expanded")
def expanded_template(package: Package) -> dict[str, Any]:
    """The template without SAM, as AWS deploys it."""
    return expand(json.loads(package.template.read_text()))


def test_removal_of_authorizer_deploys_api_again(package: Package, expanded: dict[str, Any], tmp_path: Path) -> None:
    """Otherwise the deployed API would still call the authorizer, or none after the parameter is set back."""
    template = json.loads(package.template.read_text())
    remove_authorizer(template)
    functions = ("APIHandler", "Reader", "Tester", "Bearer")
    assert {template["Resources"][name]["Properties"]["CodeUri"] for name in functions} == {"./authorizer.zip"}
    without = expand(template)
    assert set(deployments(without)).isdisjoint(deployments(expanded))
    assert lint(without_hub(without), tmp_path) == (0, "")


def deployments(template: dict[str, Any]) -> list[str]:
    """The logical ids of the API's deployments."""
    return [name for name, one in template["Resources"].items() if one["Type"] == "AWS::ApiGateway::Deployment"]


def expanded_properties(expanded: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [resource["Properties"] for resource in expanded["Resources"].values() if resource["Type"] == kind]


@pytest.mark.parametrize("variant", [with_hub, without_hub])
def test_template_passes_cfn_lint(package: Package, variant: Callable[..., Any], tmp_path: Path) -> None:
    assert lint(variant(json.loads(package.template.read_text())), tmp_path) == (0, "")


@pytest.mark.parametrize("variant", [with_hub, without_hub])
def test_expanded_template_passes_cfn_lint(
    expanded: dict[str, Any], variant: Callable[..., Any], tmp_path: Path
) -> None:
    assert lint(variant(expanded), tmp_path) == (0, "")


@pytest.mark.parametrize("arch", ELF_MACHINES)
def test_functions_have_runtime_of_target(build: Build, arch: str) -> None:
    expanded = expand(json.loads(build(arch).template.read_text()))
    functions = expanded_properties(expanded, "AWS::Lambda::Function")
    assert [(function["Runtime"], function["Architectures"]) for function in functions] == [("python3.13", [arch])] * 13


def test_tracing_applies_to_functions_and_stage(expanded: dict[str, Any]) -> None:
    modes = [function["TracingConfig"]["Mode"] for function in expanded_properties(expanded, "AWS::Lambda::Function")]
    assert modes == [{"Fn::If": ["IsTraced", "Active", "PassThrough"]}] * 13
    (stage,) = expanded_properties(expanded, "AWS::ApiGateway::Stage")
    assert stage["TracingEnabled"] == {"Fn::If": ["IsTraced", True, False]}


def test_api_is_regional_with_one_stage(expanded: dict[str, Any]) -> None:
    (api,) = expanded_properties(expanded, "AWS::ApiGateway::RestApi")
    assert api["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    stages = expanded_properties(expanded, "AWS::ApiGateway::Stage")
    deployments = expanded_properties(expanded, "AWS::ApiGateway::Deployment")
    assert [stage["StageName"] for stage in stages] == ["api"]
    assert not [deployment for deployment in deployments if "StageName" in deployment]


def test_concurrency_is_reserved_for_writer_and_reader(expanded: dict[str, Any]) -> None:
    for function, name in (("APIHandler", "WriterConcurrency"), ("Reader", "ReaderConcurrency")):
        reserved = expanded["Resources"][function]["Properties"]["ReservedConcurrentExecutions"]
        assert reserved == {"Fn::If": [f"Has{name}", {"Ref": name}, {"Ref": "AWS::NoValue"}]}
    assert "ReservedConcurrentExecutions" not in expanded["Resources"]["Tester"]["Properties"]


def test_every_path_answers_preflight_without_token(expanded: dict[str, Any]) -> None:
    (api,) = expanded_properties(expanded, "AWS::ApiGateway::RestApi")
    for methods in api["Body"]["paths"].values():
        assert "${Reader.Arn}" in json.dumps(methods["options"]["x-amazon-apigateway-integration"]["uri"])
        assert "security" not in methods["options"]


def test_expand_sam_keeps_all_resources(package: Package, expanded: dict[str, Any]) -> None:
    template = json.loads(package.template.read_text())
    kinds = {name: resource["Type"] for name, resource in expanded["Resources"].items()}
    assert "Transform" not in expanded
    assert not [name for name, kind in kinds.items() if kind.startswith("AWS::Serverless::")]
    assert template["Resources"].keys() <= kinds.keys()
    assert (kinds["Reader"], kinds["RestAPI"]) == ("AWS::Lambda::Function", "AWS::ApiGateway::RestApi")


# The Glue jobs.


def test_glue_archive_has_all_source_files(package: Package) -> None:
    archived = names(package.scripts / "glue_jobs.zip")
    sources = [path for path in (ROOT / "glue_jobs").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sorted(archived) == sorted(str(path.relative_to(ROOT)) for path in sources)
    assert {"glue_jobs/page/templates/report.html.j2", "glue_jobs/spark/log4j2.properties"} <= set(archived)


def test_glue_scripts_start_from_archive_alone(package: Package, tmp_path: Path) -> None:
    """Runs the scripts in plain processes with only the archive. The Spark tests run the jobs as a whole."""
    spark = ROOT / ".venv-spark" / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(package.scripts / "glue_jobs.zip")}
    for job in ("history", "reports"):
        command = [str(spark), str(package.scripts / f"{job}.py"), "--help"]
        process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (process.returncode, process.stderr) == (0, "")
        assert "--lake" in process.stdout
    templates = subprocess.run(
        [str(spark), "-c", LOAD_SCRIPT], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    assert b"report.html.j2" in templates.stdout
