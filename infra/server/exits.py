"""End the process with a message instead of a traceback."""

import sys
from collections.abc import Callable
from typing import TypeVar

from chalicelib.domain.errors import AnnalsError

T = TypeVar("T")


def exit_on_error(action: Callable[[], T]) -> T:
    """Call `action`. An expected error ends the process with its message and without a traceback."""
    try:
        return action()
    except AnnalsError as error:
        sys.exit(f"annals: {error}")
    except OSError as error:
        sys.exit(f"annals: {error.filename or 'cannot listen'}: {error.strerror or error}")
