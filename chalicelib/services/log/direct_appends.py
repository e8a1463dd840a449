"""Appends without a queue, for processes that handle one request at a time."""

from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import Appended
from chalicelib.services.log.appender import Appender


class DirectAppends:
    """Writes each append at once. It has the interface of `GroupCommit`."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def submit(self, append: Append) -> Appended:
        return self._appender.append(append)

    def append(self, append: Append) -> Appended:
        return self._appender.append(append)

    def flush(self, max_wait_s: float) -> bool:
        del max_wait_s
        return True
