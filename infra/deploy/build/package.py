"""`make package`: build the archives for Lambda, the scripts for Glue, and the CloudFormation template.

Chalice makes the app's archive and template. The files in `infra/template` are merged into that template.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from infra.deploy.build import archives, hub
from infra.deploy.build.dependencies import install_dependencies
from infra.deploy.build.route_functions import AUTHORIZER, assign_routes
from infra.deploy.build.target import DEFAULT_ARCH, TARGETS, Target

ROOT: Final = Path(__file__).parents[3]
TEMPLATES: Final = ROOT / "infra" / "template"
BUILD: Final = ROOT / "build" / "cloud"
STAGES: Final = ("dev", "test", "prod")

Template = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Package:
    """A directory with everything that is deployed."""

    folder: Path

    @property
    def template(self) -> Path:
        """The SAM template. Refers to archives by file name."""
        return self.folder / "sam.json"

    @property
    def functions(self) -> Path:
        """The archive of all functions that do not verify tokens."""
        return self.folder / "deployment.zip"

    @property
    def authorizer(self) -> Path:
        return self.folder / "authorizer.zip"

    @property
    def scripts(self) -> Path:
        """The directory with the Glue jobs."""
        return self.folder / "glue"


def main() -> None:
    parser = argparse.ArgumentParser(description="Package the app for AWS.")
    parser.add_argument("--stage", choices=STAGES, default="dev")
    parser.add_argument("--arch", choices=TARGETS, default=DEFAULT_ARCH, help="architecture of the functions")
    args = parser.parse_args()
    package = build_package(args.stage, BUILD / args.stage, TARGETS[args.arch])
    print_summary(args.stage, package)
    print(f"The package is in {package.folder}.")


def print_summary(stage: str, package: Package) -> None:
    settings = json.loads(package.template.read_text())["Globals"]["Function"]
    functions, authorizer = (archives.unpacked_bytes(path) / 1e6 for path in (package.functions, package.authorizer))
    print(
        f"Package for {stage}: {settings['Runtime']} on {settings['Architectures'][0]}, "
        f"functions {functions:.1f} MB unpacked, authorizer {authorizer:.1f} MB (with cryptography)."
    )
    if not archives.has_compiled_modules(package.functions):
        print(
            f"The package has sources only, which doubles the time of a cold start: there is no {settings['Runtime']} "
            "in the path or in pyenv to compile them."
        )


def build_package(stage: str, folder: Path, target: Target) -> Package:
    """Build everything that is deployed into a directory."""
    package = Package(folder)
    package.scripts.mkdir(parents=True, exist_ok=True)
    dependencies = install_dependencies(ROOT / "requirements.txt", BUILD, target)
    with tempfile.TemporaryDirectory() as scratch:
        template = _package_with_chalice(stage, Path(scratch))
        app, python = Path(scratch) / "deployment.zip", target.find_python()
        archives.write_archives(app, dependencies, package.functions, package.authorizer, python)
    policy = json.loads((ROOT / ".chalice" / "policy-reader.json").read_text())
    template = assign_routes(template, policy)
    _set_target(template, target)
    template["Resources"][AUTHORIZER]["Properties"]["CodeUri"] = f"./{package.authorizer.name}"
    package.template.write_text(json.dumps(template, indent=1))
    _write_scripts(package.scripts)
    return package


def load_template() -> Template:
    """The merged content of all files in `infra/template`, and the environment of the hub."""
    template: Template = {}
    for path in sorted(TEMPLATES.glob("*.yaml")):
        for section, entries in yaml.safe_load(path.read_text()).items():
            _add_entries(path.name, template.setdefault(section, {}), entries)
    hub.add_environment(template)
    return template


def _package_with_chalice(stage: str, folder: Path) -> Template:
    """Run `chalice package` for the app without dependencies. Writes the archive to `folder`, returns the template."""
    own_template, project = folder / "ours.json", folder / "project"
    own_template.write_text(json.dumps(load_template(), indent=1))
    for name in (".chalice", "chalicelib"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__", "deploy*"))
    shutil.copy(ROOT / "app.py", project)
    # We install dependencies ourselves: Chalice would resolve them again after every change of the app.
    (project / "requirements.txt").touch()
    command = [str(Path(sys.executable).with_name("chalice")), "package", "--stage", stage]
    options = ["--pkg-format", "cloudformation", "--merge-template", str(own_template), str(folder)]
    # Chalice requires a region, although the package does not depend on it.
    environment = {"AWS_DEFAULT_REGION": "us-east-1", **os.environ}
    subprocess.run([*command, *options], cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    template: Template = json.loads((folder / "sam.json").read_text())
    return template


def _set_target(template: Template, target: Target) -> None:
    """Set the runtime of all functions, and remove properties by Chalice that would hide those in `Globals`."""
    template["Globals"]["Function"] |= {"Runtime": target.runtime, "Architectures": [target.architecture]}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            for name in ("Tracing", "Runtime", "Architectures"):
                resource["Properties"].pop(name)


def _write_scripts(folder: Path) -> None:
    """Write the jobs as an archive for Python's path, and a script per job that starts it."""
    with tempfile.TemporaryDirectory() as tree:
        sources = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "glue_jobs", Path(tree) / "glue_jobs", ignore=sources)
        archives.write_archive(Path(tree), folder / "glue_jobs.zip")
    for job in ("history", "reports"):
        script = f"import sys\n\nfrom glue_jobs.{job} import main\n\nmain(sys.argv[1:])\n"
        (folder / f"{job}.py").write_text(script)


def _add_entries(file: str, section: Template, entries: Mapping[str, Any]) -> None:
    for name, content in entries.items():
        if name in section:
            raise ValueError(f"{file} defines {name}, which another file defines already")
        section[name] = content


if __name__ == "__main__":
    main()
