"""`annals run --flush`: send the reports of earlier runs."""

import os
import sys

from annals_client.cli import exits
from annals_client.cli.printing import escape_control
from annals_client.run.destination import Destination
from annals_client.run.sender import CLIENT_ERRORS, Sender
from annals_client.run.spool import spools_of
from annals_client.sans_io import RetryPolicy

FLUSH_TIMEOUT_S = 30.0
"""How long a request is retried."""


def flush(url: str | None, token: str | None, organization: str | None) -> int:
    """Send the spooled runs of this destination. Returns an exit code of `exits`."""
    if not url or not token:
        return _fail("set ANNALS_URL and ANNALS_TOKEN", exits.NOT_ALLOWED)
    spools = spools_of(os.environ)
    try:
        removed = sum(spool.prune() for spool in spools)
        if removed:
            sys.stderr.write(f"annals: {removed} reports were too old or too many, and are removed\n")
        flushed = Sender(Destination(url, token, organization), spools, RetryPolicy(FLUSH_TIMEOUT_S)).send_older()
    except (*CLIENT_ERRORS, OSError) as error:
        return _fail(str(error), exits.exit_code(error))
    sys.stdout.write(f"{flushed.sent} sent, {flushed.left} left\n")
    return exits.OK if flushed.refusal is None else _fail(str(flushed.refusal), exits.exit_code(flushed.refusal))


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"annals: {escape_control(text)}\n")
    return code
