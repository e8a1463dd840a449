"""A few seconds of fault injection on each target. `make torture` runs longer."""

from pathlib import Path

import pytest

from tests.torture.checks.report import Outcome, table
from tests.torture.faults import Fault
from tests.torture.hubs import torture_hubs
from tests.torture.progress import RunSettings
from tests.torture.targets import torture_dynamodb, torture_http, torture_sqlite


def test_sqlite_with_faults_loses_nothing(tmp_path: Path) -> None:
    outcome = torture_sqlite(_settings(tmp_path, min_acknowledged=100))
    _assert_no_violations(outcome, acknowledged=100)
    assert set(outcome.faults) == {
        Fault.CLOCK_OFF,
        Fault.CLOCK_BACK,
        Fault.RESPONSE_LOST,
        Fault.ALL_RESPONSES_LOST,
        Fault.RESPONSE_LATE,
        Fault.KILLED_BEFORE,
        Fault.KILLED_DURING,
        Fault.KILLED_AFTER,
        Fault.SENT_TWICE,
        Fault.KILLED,
    }


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("emulator", ["ministack", "dynamodb_local"])
def test_dynamodb_with_faults_loses_nothing(emulator: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    outcome = torture_dynamodb(_settings(tmp_path, min_acknowledged=30), request.getfixturevalue(emulator))
    _assert_no_violations(outcome, acknowledged=30)
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


def test_http_server_killed_and_attacked_loses_nothing(tmp_path: Path) -> None:
    outcome = torture_http(_settings(tmp_path, min_acknowledged=100))
    _assert_no_violations(outcome, acknowledged=100)
    assert set(outcome.faults) == {Fault.SERVER_KILLED, Fault.SERVER_STOPPED, Fault.CLIENT_DISCONNECTED}
    assert outcome.hostile > 30, table([outcome])


@pytest.mark.usefixtures("aws_environment")
def test_two_hubs_and_four_functions_lose_nothing(dynamodb_local: str, tmp_path: Path) -> None:
    outcome = torture_hubs(_settings(tmp_path, min_acknowledged=100), dynamodb_local)
    _assert_no_violations(outcome, acknowledged=100)
    assert {Fault.SERVER_KILLED, Fault.SERVER_STOPPED, Fault.KILLED, Fault.SENT_TWICE, Fault.WIRE_ZOMBIE} <= set(
        outcome.faults
    )
    assert outcome.runs > 0, table([outcome])


def _settings(home: Path, min_acknowledged: int) -> RunSettings:
    return RunSettings(home / "run", seconds=5.0, seed="1", min_acknowledged=min_acknowledged, max_extra_s=60.0)


def _assert_no_violations(outcome: Outcome, acknowledged: int) -> None:
    assert outcome.violations == (), table([outcome])
    assert outcome.acknowledged >= acknowledged, table([outcome])
    assert outcome.refused > 0, table([outcome])
    assert outcome.read > outcome.events, table([outcome])
