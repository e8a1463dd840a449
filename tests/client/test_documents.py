"""The Python code in docs/client.md runs."""

import re
import subprocess
import sys

from tests.client.shell import Shell
from tests.serving import ROOT, TIMEOUT_S

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_client_document_examples_run(shell: Shell) -> None:
    program = "\n".join(BLOCK.findall((ROOT / "docs" / "client.md").read_text()))
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=dict(shell.environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S * 2,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "deploy/finished /web" in completed.stdout
