"""`make smoke` on an emulator: the same checks as on AWS, where the emulator has what they need."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.deploy.deployment import DEPLOY_TIMEOUT_S, REGION, STAGE, Deployment, command, end, run_deployment

POSSIBLE = {2, 3, 4, 6, 9, 12}
"""The numbers of the checks that an emulator can pass."""


@pytest.fixture(scope="module", name="deployment")
def shared_deployment() -> Iterator[Deployment]:
    with run_deployment() as running:
        yield running


def run(deployment: Deployment, *arguments: str) -> tuple[int, str]:
    """Run the command without a terminal. Returns its exit code and output."""
    process = command(
        "smoke",
        *("--stage", STAGE, *arguments),
        AWS_ENDPOINT_URL=deployment.endpoint,
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_DEFAULT_REGION=REGION,
    )
    try:
        output, _ = process.communicate(timeout=DEPLOY_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        end(process)
        raise
    return process.returncode, output


def results(output: str) -> dict[int, str]:
    """Status by number of the check, from the table."""
    lines = re.findall(r"^ ?(\d+)  .*?  (passed|failed|not possible here) +\S", output, re.MULTILINE)
    return {int(number): status for number, status in lines}


def test_smoke_passes_what_emulator_can_do(deployment: Deployment) -> None:
    code, output = run(deployment, "--yes")
    assert code == 0, output
    assert results(output) == {n: "passed" if n in POSSIBLE else "not possible here" for n in range(1, 14)}, output


def test_smoke_asks_before_it_starts(deployment: Deployment) -> None:
    code, output = run(deployment)
    assert (code, "costs about a dollar" in output, results(output)) == (1, True, {})
    assert "Nothing was checked." in output


def test_smoke_unknown_check_is_refused(deployment: Deployment) -> None:
    code, output = run(deployment, "--only", "2,14")
    assert (code, "There is no check 14: they are numbered from 1 to 13." in output) == (1, True)


def test_smoke_failed_check_is_exit_code_1(deployment: Deployment) -> None:
    """The sender of mail is no longer verified, so SES refuses the mails."""
    deployment.aws("sesv2").delete_email_identity(EmailIdentity=deployment.environment["MAIL_FROM"])
    code, output = run(deployment, "--yes", "--only", "9,13")
    assert (code, results(output)) == (1, {9: "failed", 13: "not possible here"}), output
    assert "CheckFailed: 0 messages were sent, " in output
    assert output.rstrip().endswith("Failed: 9.")
