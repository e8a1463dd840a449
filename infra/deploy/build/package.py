"""`make package`: the app as Lambda gets it, the jobs as Glue gets them, and the template that makes everything else.

Chalice makes the first and the last; what is in `infra/template` is merged into its template.
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

from infra.deploy.build import archives
from infra.deploy.build.dependencies import installed
from infra.deploy.build.route_functions import shared_out

ROOT: Final = Path(__file__).parents[3]
TEMPLATES: Final = ROOT / "infra" / "template"
BUILD: Final = ROOT / "build" / "cloud"
STAGES: Final = ("dev", "test", "prod")

Template = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Package:
    """A directory with all that is deployed."""

    folder: Path

    @property
    def template(self) -> Path:
        """The template, in the language of SAM; it names archives by their files."""
        return self.folder / "sam.json"

    @property
    def functions(self) -> Path:
        """The archive of all functions but one."""
        return self.folder / "deployment.zip"

    @property
    def authorizer(self) -> Path:
        """The archive of the function that checks tokens."""
        return self.folder / "authorizer.zip"

    @property
    def scripts(self) -> Path:
        """The directory with what Glue runs."""
        return self.folder / "glue"


def main() -> None:
    """Package one stage."""
    parser = argparse.ArgumentParser(description="Package the app for AWS.")
    parser.add_argument("--stage", choices=STAGES, default="dev")
    stage = parser.parse_args().stage
    made = package(stage, BUILD / stage)
    tell(stage, made)
    print(f"It is in {made.folder}.")


def tell(stage: str, made: Package) -> None:
    """Say how large it is."""
    functions, authorizer = (archives.unpacked_bytes(one) / 1e6 for one in (made.functions, made.authorizer))
    print(
        f"The package for {stage}: functions {functions:.1f} MB unpacked, "
        f"the authorizer {authorizer:.1f} MB with what checks signatures."
    )


def package(stage: str, folder: Path) -> Package:
    """Make all that is deployed, in a directory."""
    made = Package(folder)
    made.scripts.mkdir(parents=True, exist_ok=True)
    dependencies = installed(ROOT / "requirements.txt", BUILD)
    with tempfile.TemporaryDirectory() as scratch:
        whole = _run_chalice(stage, Path(scratch))
        archives.write_both(Path(scratch) / "deployment.zip", dependencies, made.functions, made.authorizer)
    policy = json.loads((ROOT / ".chalice" / "policy-reader.json").read_text())
    whole = shared_out(whole, policy)
    whole["Resources"]["Bearer"]["Properties"]["CodeUri"] = f"./{made.authorizer.name}"
    made.template.write_text(json.dumps(whole, indent=1))
    _write_scripts(made.scripts)
    return made


def template() -> Template:
    """What all files in `infra/template` say together."""
    whole: Template = {}
    for path in sorted(TEMPLATES.glob("*.yaml")):
        for section, named in yaml.safe_load(path.read_text()).items():
            _add(path.name, whole.setdefault(section, {}), named)
    return whole


def _run_chalice(stage: str, folder: Path) -> Template:
    """What Chalice makes of the app alone: an archive in `folder`, and its template."""
    ours, project = folder / "ours.json", folder / "project"
    ours.write_text(json.dumps(template(), indent=1))
    for name in (".chalice", "chalicelib"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__", "deploy*"))
    shutil.copy(ROOT / "app.py", project)
    # Dependencies are ours to add: Chalice would look for them anew with every change of the app.
    (project / "requirements.txt").touch()
    command = [str(Path(sys.executable).with_name("chalice")), "package", "--stage", stage]
    options = ["--pkg-format", "cloudformation", "--merge-template", str(ours), str(folder)]
    # Chalice asks for a region though the package is the same in all of them.
    environment = {"AWS_DEFAULT_REGION": "us-east-1", **os.environ}
    subprocess.run([*command, *options], cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    made: Template = json.loads((folder / "sam.json").read_text())
    return made


def _write_scripts(folder: Path) -> None:
    """The jobs as an archive that Glue puts on Python's path, and a script for each that starts it."""
    with tempfile.TemporaryDirectory() as tree:
        sources = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "glue_jobs", Path(tree) / "glue_jobs", ignore=sources)
        archives.write(Path(tree), folder / "glue_jobs.zip")
    for job in ("history", "reports"):
        script = f"import sys\n\nfrom glue_jobs.{job} import main\n\nmain(sys.argv[1:])\n"
        (folder / f"{job}.py").write_text(script)


def _add(file: str, section: Template, named: Mapping[str, Any]) -> None:
    for name, content in named.items():
        if name in section:
            raise ValueError(f"{file} defines {name} again")
        section[name] = content


if __name__ == "__main__":
    main()
