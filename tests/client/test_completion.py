"""Completion scripts, run in the shells."""

from pathlib import Path

import pytest

from annals_client.cli.completion import subparsers
from annals_client.cli.parser import SHELLS, create_parser
from tests.client import shell_completion
from tests.client.shell import Shell
from tests.client.shell_completion import CompletionFunction


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("annals sna", "snapshot"),
        ("annals query lat", "latest"),
        ("annals follow --ty", "--types"),
        ("annals completion z", "zsh"),
        ("annals run --ti", "--timeout"),
    ],
)
@pytest.mark.parametrize("shell_name", SHELLS)
def test_completion_unique_prefix_is_completed(
    complete: CompletionFunction, shell_name: str, shell: Shell, line: str, completed: str, tmp_path: Path
) -> None:
    assert complete(shell.annals("completion", shell_name).out, line, tmp_path) == {completed}


def test_completion_ambiguous_prefix_offers_all(shell: Shell, tmp_path: Path) -> None:
    script = shell.annals("completion", "bash").out
    assert shell_completion.bash(script, "annals rep", tmp_path) == {"replay", "report"}
    assert shell_completion.bash(script, "annals follow --t", tmp_path) == {"--tags", "--token", "--types"}


@pytest.mark.parametrize("shell_name", SHELLS)
def test_completion_script_has_every_command(shell_name: str, shell: Shell) -> None:
    [result] = shell.annals("completion", shell_name, "--json").values
    assert result == {"script": shell.annals("completion", shell_name).out.removesuffix("\n")}
    assert [name for name in subparsers(create_parser()) if name not in result["script"]] == []


def test_completion_all_supported_shells_are_tested() -> None:
    assert set(shell_completion.SHELLS) == set(SHELLS)
