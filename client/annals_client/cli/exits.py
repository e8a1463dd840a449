"""Exit codes: what scripts can rely on (docs/cli.md)."""

from collections.abc import Sequence

from annals_client.errors import AnnalsError, BadRequest, ConditionFailed, KeyReused, NotAllowed, NotFound, Unavailable

OK = 0
FAILED = 1
"""Something else went wrong: an error of the server's own, a file that cannot be read."""
USAGE = 2
"""The command line is wrong, or what it gives is; the server refuses it, or was not asked."""
NOT_ALLOWED = 3
NOT_FOUND = 4
CONFLICT = 5
"""The condition failed, or the idempotency key was used for something else."""
UNAVAILABLE = 6
"""No answer until the deadline: the same again may work."""
DAMAGED = 7
"""Of `check`: something is wrong with the data."""
INTERRUPTED = 130
BROKEN_PIPE = 141
"""Whoever read the output has gone; as if SIGPIPE had ended it."""

CODES: Sequence[tuple[type[AnnalsError], int]] = (
    (BadRequest, USAGE),
    (NotAllowed, NOT_ALLOWED),
    (NotFound, NOT_FOUND),
    (ConditionFailed, CONFLICT),
    (KeyReused, CONFLICT),
    (Unavailable, UNAVAILABLE),
)


class Usage(Exception):
    """What the command line gives is wrong; nothing was asked of the server."""


class NoToken(Exception):
    """There is no token to show."""


class Damaged(Exception):
    """Something is wrong with the data of the server on this machine."""


OWN = (Usage, NoToken, Damaged)
"""What the command itself raises."""


def code_of(failure: Exception) -> int:
    """With which code the command ends."""
    match failure:
        case Usage():
            return USAGE
        case NoToken():
            return NOT_ALLOWED
        case Damaged():
            return DAMAGED
        case _:
            return next((code for kind, code in CODES if isinstance(failure, kind)), FAILED)
