"""The clock of the machine, the default where a service takes a `Clock`."""

import time


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
