"""Each target goes through a few seconds of torture. `make torture` does the same for as long as one likes."""

from pathlib import Path

import pytest

from tests.torture.faults import Fault
from tests.torture.progress import Order
from tests.torture.report import Outcome, table
from tests.torture.targets import torture_dynamodb, torture_http, torture_sqlite


def test_processes_that_share_a_sqlite_file_lose_nothing(tmp_path: Path) -> None:
    outcome = torture_sqlite(_order(tmp_path, enough=100))
    _assert_proven(outcome, acknowledged=100)
    assert set(outcome.faults) == {
        Fault.CLOCK_OFF,
        Fault.CLOCK_BACK,
        Fault.ANSWER_LOST,
        Fault.ANSWER_GONE,
        Fault.ANSWER_LATE,
        Fault.KILLED_BEFORE,
        Fault.KILLED_DURING,
        Fault.KILLED_AFTER,
        Fault.SENT_TWICE,
        Fault.KILLED,
    }


@pytest.mark.usefixtures("aws_environment")
def test_processes_that_share_dynamodb_tables_lose_nothing(tmp_path: Path, ministack: str) -> None:
    outcome = torture_dynamodb(_order(tmp_path, enough=30), ministack)
    _assert_proven(outcome, acknowledged=30)
    assert set(outcome.faults) == {
        Fault.CLOCK_OFF,
        Fault.CLOCK_BACK,
        Fault.KILLED_BEFORE,
        Fault.KILLED_DURING,
        Fault.KILLED_AFTER,
        Fault.SENT_TWICE,
        Fault.KILLED,
        Fault.WIRE_REFUSED,
        Fault.WIRE_CUT,
        Fault.WIRE_SLOW,
        Fault.WIRE_ZOMBIE,
    }


def test_clients_of_a_server_that_is_attacked_and_killed_again_and_again_lose_nothing(tmp_path: Path) -> None:
    outcome = torture_http(_order(tmp_path, enough=100))
    _assert_proven(outcome, acknowledged=100)
    assert set(outcome.faults) == {Fault.SERVER_KILLED, Fault.SERVER_STOPPED, Fault.HUNG_UP}
    assert outcome.hostile > 30, table([outcome])


def _order(home: Path, enough: int) -> Order:
    return Order(home / "run", seconds=5.0, seed="1", enough=enough, patience_s=60.0)


def _assert_proven(outcome: Outcome, acknowledged: int) -> None:
    assert outcome.violations == (), table([outcome])
    assert outcome.acknowledged >= acknowledged, table([outcome])
    assert outcome.refused > 0, table([outcome])
    assert outcome.read > outcome.events, table([outcome])
