"""One server for the tests of this directory. Each test has its own organization."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.serving import ROOT, TIMEOUT_S, Server, fixture_member, fixture_server, run_server

__all__ = ["fixture_member", "fixture_server"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with few organizations, whose views are built quickly."""
    with run_server(tmp_path_factory.mktemp("small")) as running:
        yield running


@pytest.fixture(scope="module")
def short_retention(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that retains the last two events of each organization."""
    with run_server(tmp_path_factory.mktemp("short_retention"), RETENTION_EVENTS="2") as running:
        yield running


def build_views(server: Server) -> None:
    """`make rebuild`: update the views with all events."""
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(server.data_dir)}
    command = [sys.executable, "-m", "infra.server.commands.rebuild"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=4 * TIMEOUT_S)
