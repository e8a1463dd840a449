"""The packages that `make run` installs."""

import re
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
EMBEDDED = (ROOT / "requirements-embedded.txt").read_text()


def test_make_run_installs_the_command_annals() -> None:
    """Messages of the server and the documentation name `annals check`."""
    assert re.search(r"^-e \./client\b", EMBEDDED, re.MULTILINE)


def test_dependencies_of_the_command_are_pinned() -> None:
    pinned = {name.lower() for name in re.findall(r"^([\w.-]+)==", EMBEDDED, re.MULTILINE)}
    assert _dependencies("httpx") - {"typing-extensions"} <= pinned


def _dependencies(package: str) -> set[str]:
    """The package and all that it needs, without extras."""
    needed = {package}
    for requirement in requires(package) or ():
        if "extra ==" not in requirement and "python_version <" not in requirement:
            needed |= _dependencies(re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower())
    return needed
