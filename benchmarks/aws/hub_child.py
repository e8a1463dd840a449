"""A server on DynamoDB for the benchmark of the hub: `grouped` as it is, or `single`, with a put for each request."""

import sys
from collections.abc import Callable

from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log import parallel_group_commit
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.direct_appends import DirectAppends

SINGLE, GROUPED = "single", "grouped"


class _SinglePuts(DirectAppends):
    """Writes each append at once, in the thread of its request."""

    def __init__(self, appender: Appender, on_commit: Callable[[Commit], None]) -> None:
        super().__init__(appender)
        self._on_commit = on_commit

    def submit(self, append: Append) -> Appended:
        appended = super().submit(append)
        self._on_commit(appended.commit)
        return appended


def main(mode: str) -> None:
    from infra.server.__main__ import main as serve  # noqa: PLC0415  (must see the replaced class)

    if mode == SINGLE:
        parallel_group_commit.ParallelGroupCommit = _SinglePuts  # type: ignore[assignment,misc]
    serve()


if __name__ == "__main__":
    main(sys.argv[1])
