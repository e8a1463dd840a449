"""The hub's container image, as far as it can be tested without Docker: its files, packages and entry point."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import requires
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from infra.deploy.build.package import ROOT, load_template
from infra.deploy.build.target import DEFAULT_ARCH, TARGETS
from tests.hub.conftest import hub_environment

LIST_PACKAGES = """
import importlib, json, pkgutil, sys
from importlib.metadata import packages_distributions
sys.modules["apsw"] = None  # Imports of it fail.
for package in ("chalicelib", "infra.server.gateway", "infra.server.http"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.startswith(("chalicelib.adapters.sqlite", "chalicelib.wiring.local")):
            importlib.import_module(module.name)
import app, boto3, infra.server.__main__, infra.server.hub
distributions = packages_distributions()
loaded = [name.partition(".")[0] for name, module in sys.modules.items() if module]
print(json.dumps(sorted({name for module in loaded for name in distributions.get(module, ())})))
"""
"""Imports the modules of the server, and prints the installed packages that they use."""
OPTIONAL = {"certifi"}
"""botocore uses it if it is installed, and its own copy otherwise."""


def instructions(name: str) -> list[str]:
    """The values of all instructions with this name."""
    lines = re.findall(r"^([A-Z]+) (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return [value for instruction, value in lines if instruction == name]


def copies() -> Iterator[tuple[Path, Path]]:
    """Sources and destinations of the copied files and folders, relative to their roots."""
    for value in instructions("COPY"):
        *sources, destination = map(Path, value.split())
        for source in sources:
            is_into_folder = value.endswith("/")
            yield source, destination / source.name if is_into_folder else destination


@pytest.fixture(scope="module", name="image")
def image_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with exactly the files that the image contains."""
    folder = tmp_path_factory.mktemp("image")
    for source, destination in copies():
        target = folder / destination
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, target)
    return folder


def pinned_packages(file: str) -> set[str]:
    """The packages in a requirements file and in those that it includes."""
    text = (ROOT / file).read_text()
    names = {normalize(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
    return names.union(*(pinned_packages(other) for other in re.findall(r"^-r (\S+)", text, re.MULTILINE)))


def normalize(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def with_dependencies(packages: set[str]) -> set[str]:
    """The packages and everything that pip installs for them."""
    found, new = set[str](), packages
    while new:
        found |= new
        needed = [Requirement(line) for package in new for line in requires(package) or ()]
        new = {
            normalize(one.name) for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})
        } - found
    return found


def test_dockerignore_lets_copied_files_through() -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert patterns[1] == "*"
    allowed = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    assert allowed == {str(source) for source, _ in copies()}
    assert all((ROOT / name).exists() for name in allowed)


def test_image_copies_no_secrets_or_data(image: Path) -> None:
    names = [path.name for path in image.rglob("*")]
    assert not [name for name in names for pattern in ("*.sqlite*", "*.key", ".env*") if fnmatch(name, pattern)]


def test_image_starts_hub_and_stops_it_on_sigterm(
    image: Path, dynamodb_local: str, dynamodb_local_tables: tuple[str, str]
) -> None:
    """With the environment that the Dockerfile sets, except for the port."""
    (command,), (settings,) = instructions("ENTRYPOINT"), instructions("ENV")
    python, *arguments = json.loads(command)
    assert python == "python"
    environment = {
        **dict(setting.split("=") for setting in settings.split()),
        **hub_environment(dynamodb_local, dynamodb_local_tables),
        "JWT_KEY": "a key of the tests, long enough for HS256",
        "PORT": "0",
    }
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=image, env=environment, stdout=subprocess.PIPE, text=True
    ) as hub:
        assert hub.stdout is not None
        port = re.search(r"http://0\.0\.0\.0:(\d+)", hub.stdout.readline())
        try:
            assert port is not None
            path = load_template()["Resources"]["HubTargets"]["Properties"]["HealthCheckPath"]
            response = httpx.get(f"http://127.0.0.1:{port[1]}{path}", trust_env=False)
        finally:
            hub.send_signal(signal.SIGTERM)
    assert (response.status_code, hub.returncode) == (200, 0)


def test_image_installs_all_packages_of_server(image: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", LIST_PACKAGES], cwd=image, env={}, capture_output=True, text=True, check=True
    )
    used = set(map(normalize, json.loads(process.stdout)))
    installed = with_dependencies(pinned_packages("requirements-hub.txt"))
    assert "boto3" in used
    assert used - installed - OPTIONAL == set()


def test_image_installs_no_development_packages() -> None:
    (install,) = (value for value in instructions("RUN") if value.startswith("pip install"))
    assert install.endswith("-r requirements-hub.txt")
    assert pinned_packages("requirements-hub.txt").isdisjoint({"apsw", "httpx", "moto", "pytest"})


def test_image_has_runtime_of_functions() -> None:
    assert instructions("FROM") == [f"python:{TARGETS[DEFAULT_ARCH].python}-slim"]
    platform = load_template()["Resources"]["HubTask"]["Properties"]["RuntimePlatform"]
    assert platform == {"CpuArchitecture": DEFAULT_ARCH.upper(), "OperatingSystemFamily": "LINUX"}
    assert f"--platform linux/{DEFAULT_ARCH}" in (ROOT / "Makefile").read_text()


def test_image_does_not_run_as_root() -> None:
    (user,) = instructions("USER")
    assert int(user) > 0
