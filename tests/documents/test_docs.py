"""Runs the commands in the documentation, as a reader would."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ADDRESS = "http://127.0.0.1:8000"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
MODULE_PATH = re.compile(r"`((?:chalicelib|infra|glue_jobs|tests)/[\w/]+\.py)`")
MEMBER = re.compile(r"`([\w.]+)` in `([\w/]+\.py)`")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a reader who has just typed `make run`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The tests may run under make, a reader's shell does not.
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = {**shell, "PORT": str(port), "DATA_DIR": str(tmp_path_factory.mktemp("data"))}
    command = ["make", "run"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            greeting = next(line for line in running.stdout if not line.startswith("Installing"))
            assert greeting.startswith(f"Annals serves http://127.0.0.1:{port}")
            yield environment
        finally:
            running.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_documents_work(document: Path, reader: dict[str, str]) -> None:
    blocks = [block for block in BLOCK.findall(document.read_text()) if block != "make run\n"]
    script = "\n".join(blocks).replace(ADDRESS, f"http://127.0.0.1:{reader['PORT']}")
    checked = script.replace("curl -s ", "curl -s --fail-with-body ")
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", checked],
        cwd=ROOT,
        env=reader,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("{") >= script.count("curl ")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_point_to_existing_files(document: Path) -> None:
    missing = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert missing == []


def test_architecture_names_existing_modules() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    paths = MODULE_PATH.findall(text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    members = MEMBER.findall(text)
    assert members
    assert [f"{name} in {path}" for name, path in members if not _is_defined(name, ROOT / path)] == []


def _is_defined(name: str, module: Path) -> bool:
    owner, _, member = name.rpartition(".")
    source = module.read_text()
    return f"def {member}(" in source and (not owner or f"class {owner}" in source)
