"""`make package`: the app as Lambda gets it, and the template that makes everything around it.

Chalice makes both; what is in `infra/template` is merged into its template.
"""

import argparse
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
TEMPLATES: Final = ROOT / "infra" / "template"

Template = dict[str, Any]


def main() -> None:
    """Package one stage."""
    parser = argparse.ArgumentParser(description="Package the app for AWS.")
    parser.add_argument("--stage", default="dev")
    stage = parser.parse_args().stage
    folder = ROOT / "build" / "cloud" / stage
    package(stage, folder)
    size = unpacked_bytes(folder / "deployment.zip")
    print(f"The package for {stage} is in {folder}: {size / 1e6:.1f} MB unpacked.")


def package(stage: str, folder: Path) -> None:
    """Write `deployment.zip` and `sam.json` to a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = folder / "ours.json"
    ours.write_text(json.dumps(template(), indent=1))
    command = [str(Path(sys.executable).with_name("chalice")), "package", "--stage", stage]
    options = ["--pkg-format", "cloudformation", "--merge-template", str(ours), str(folder)]
    # Chalice asks for a region though the package is the same in all of them.
    environment = {"AWS_DEFAULT_REGION": "us-east-1", **os.environ}
    subprocess.run([*command, *options], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def template() -> Template:
    """What all files in `infra/template` say together."""
    whole: Template = {}
    for path in sorted(TEMPLATES.glob("*.yaml")):
        for section, named in yaml.safe_load(path.read_text()).items():
            _add(path.name, whole.setdefault(section, {}), named)
    return whole


def unpacked_bytes(archive: Path) -> int:
    """How large the files of an archive are."""
    with zipfile.ZipFile(archive) as opened:
        return sum(entry.file_size for entry in opened.infolist())


def _add(file: str, section: Template, named: Mapping[str, Any]) -> None:
    for name, content in named.items():
        if name in section:
            raise ValueError(f"{file} defines {name} again")
        section[name] = content


if __name__ == "__main__":
    main()
