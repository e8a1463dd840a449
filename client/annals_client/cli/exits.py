"""Exit codes of the `annals` command (docs/cli.md)."""

from collections.abc import Sequence

from annals_client.errors import AnnalsError, BadRequest, ConditionFailed, KeyReused, NotAllowed, NotFound, Unavailable

OK = 0
FAILED = 1
"""Any other error, such as an event that was not written, an internal server error or an unreadable file."""
USAGE = 2
"""The command line or its input is invalid."""
NOT_ALLOWED = 3
NOT_FOUND = 4
CONFLICT = 5
"""The append condition failed, or the idempotency key was used for other events."""
UNAVAILABLE = 6
"""No response before the deadline. Running the command again may work."""
DAMAGED = 7
"""`annals check` found damage."""
INTERRUPTED = 130
BROKEN_PIPE = 141
"""The reader of the output is gone. The same code as for SIGPIPE."""

CODES: Sequence[tuple[type[AnnalsError], int]] = (
    (BadRequest, USAGE),
    (NotAllowed, NOT_ALLOWED),
    (NotFound, NOT_FOUND),
    (ConditionFailed, CONFLICT),
    (KeyReused, CONFLICT),
    (Unavailable, UNAVAILABLE),
)


class UsageError(Exception):
    """The command line is invalid. No request was sent."""


class MissingToken(Exception):
    """There is no token."""


class DataDamaged(Exception):
    """The data of the server on this machine is damaged."""


class NotWritten(Exception):
    """The server ignored events, such as those about an unknown job. The others are written."""


class ServerNotInstalled(Exception):
    """The command needs the code of the server."""


CLI_ERRORS = (UsageError, MissingToken, DataDamaged, NotWritten, ServerNotInstalled)


def exit_code(error: Exception) -> int:
    match error:
        case UsageError():
            return USAGE
        case MissingToken():
            return NOT_ALLOWED
        case DataDamaged():
            return DAMAGED
        case _:
            return next((code for kind, code in CODES if isinstance(error, kind)), FAILED)
