"""`make rebuild`: build the views of the local log anew, also while the server runs."""

from infra.server.startup import opened, or_end
from infra.tools.rebuilding import rebuild_all


def main() -> None:
    """All logs, one after the other."""
    parts = opened()
    or_end(lambda: rebuild_all(parts))
    parts.close()


if __name__ == "__main__":
    main()
