"""What docs/client.md shows in Python works, from its first line to its last."""

import re
import subprocess
import sys

from tests.client.shell import Shell
from tests.serving import PATIENCE_S, ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_document_of_the_client_runs(shell: Shell) -> None:
    program = "\n".join(BLOCK.findall((ROOT / "docs" / "client.md").read_text()))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=dict(shell.environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S * 2,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "deploy/finished /web" in done.stdout
