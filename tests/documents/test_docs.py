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
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)">')
MAKE_COMMAND = re.compile(r"(?:^|`|&& |\d )make ((?:-s )?[a-z][\w-]*(?: [a-z][\w-]*)*)", re.MULTILINE)
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


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "SECURITY.md"], ids=lambda path: path.name)
def test_links_point_to_existing_files_and_headings(document: Path) -> None:
    links = LINK.findall(document.read_text())
    targets = [((document.parent / path).resolve() if path else document, anchor) for path, anchor in links]
    missing = [path for path, _ in targets if not path.exists()]
    assert missing == []
    assert [(path.name, anchor) for path, anchor in targets if anchor and anchor not in _anchors(path)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_in_documents_exist(document: Path) -> None:
    """Also those in blocks that are not run, because they need an AWS account, Docker or a terminal."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {name for words in MAKE_COMMAND.findall(document.read_text()) for name in words.split() if name != "-s"}
    assert named - set(targets) == set()


def test_api_reference_has_each_subject_once() -> None:
    subjects = re.findall(r"^## (.*)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert "JobScheduler" in subjects
    assert "Console" in subjects
    assert len({subject.lower() for subject in subjects}) == len(subjects)


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


def _anchors(document: Path) -> set[str]:
    """The anchors of a page as GitHub makes them from its headings, and its own."""
    text = document.read_text()
    slugs = (re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text))
    return {*slugs, *ANCHOR.findall(text)}
