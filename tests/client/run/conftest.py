"""Fixtures for `annals run`."""

from pathlib import Path

import pytest

from tests.client.run.runner import Runner
from tests.client.shell import Shell
from tests.serving import Member


@pytest.fixture
def runner(shell: Shell, member: Member, tmp_path: Path) -> Runner:
    """Runs commands of a member of a new organization, with an empty spool."""
    return Runner(shell, member, tmp_path / "state")
