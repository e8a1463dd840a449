"""Completion in the shells themselves."""

from pathlib import Path

import pytest

from annals_client.cli.completion import commands
from annals_client.cli.parser import SHELLS, parser
from tests.client import completing
from tests.client.completing import Completes
from tests.client.shell import Shell


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("annals sna", "snapshot"),
        ("annals query lat", "latest"),
        ("annals follow --ty", "--types"),
        ("annals completion z", "zsh"),
    ],
)
@pytest.mark.parametrize("shell_name", SHELLS)
def test_what_is_typed_is_completed(
    completes: Completes, shell_name: str, shell: Shell, line: str, completed: str, tmp_path: Path
) -> None:
    assert completes(shell.annals("completion", shell_name).out, line, tmp_path) == {completed}


def test_all_that_is_meant_is_offered(shell: Shell, tmp_path: Path) -> None:
    script = shell.annals("completion", "bash").out
    assert completing.bash(script, "annals rep", tmp_path) == {"replay", "report"}
    assert completing.bash(script, "annals follow --t", tmp_path) == {"--token", "--types"}


@pytest.mark.parametrize("shell_name", SHELLS)
def test_completion_knows_every_command(shell_name: str, shell: Shell) -> None:
    [told] = shell.annals("completion", shell_name, "--json").values
    assert told == {"script": shell.annals("completion", shell_name).out.removesuffix("\n")}
    assert [name for name in commands(parser()) if name not in told["script"]] == []


def test_every_shell_that_has_a_script_is_tried() -> None:
    assert set(completing.SHELLS) == set(SHELLS)
