"""The pump gives way to those who write, and misses nothing for it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chalicelib.domain.views.record import PROJECT
from chalicelib.services.consumers.consumer import RUN_COMMITS, checkpoint_of
from chalicelib.settings import Settings
from chalicelib.wiring import Annals, embedded
from infra.server.processes.consumer_worker import Pump
from tests.services.worlds import append


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Annals]:
    made = embedded(Settings.from_environment({"DATA_DIR": str(tmp_path), "JWT_KEY": "k" * 32}))
    for name in ("first", "second"):
        made.organizations.create(name)
    yield made
    made.close()


def told(*answers: bool) -> Callable[[], bool]:
    """What is said when asked whether something was written: these, then always no."""
    left = list(answers)
    return lambda: bool(left) and left.pop(0)


def behind(parts: Annals, organization: str) -> int:
    server = parts.organizations.server(organization)
    return parts.log.head(server).session - checkpoint_of(PROJECT, server, parts.views).head.session


def fill(parts: Annals, organization: str, commits: int) -> None:
    server = parts.organizations.server(organization)
    for number in range(commits):
        parts.appender.append(append(request_id=f"{organization} {number}", server=server))


def test_it_rests_while_others_write_and_not_otherwise(parts: Annals) -> None:
    fill(parts, "first", 2 * RUN_COMMITS + 1)
    rests: list[float] = []
    Pump(replace(parts, has_grown=told(True, False, True)), rests.append).turn()
    assert len(rests) == 1
    assert rests[0] > 0
    assert behind(parts, "first") == 0


def test_what_is_written_behind_its_back_while_it_rests_comes_next(parts: Annals) -> None:
    """It has done with the first log, and asks whether to give way while it is at the second."""
    fill(parts, "second", RUN_COMMITS + 1)
    pump = Pump(replace(parts, has_grown=told(True, True)), lambda _seconds: fill(parts, "first", 1))
    pump.turn()
    assert behind(parts, "first") == 1
    pump.turn()
    assert behind(parts, "first") == 0
