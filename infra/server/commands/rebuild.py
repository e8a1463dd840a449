"""`make rebuild`: rebuild the views of the local log. The server may run meanwhile."""

from infra.server.exits import exit_on_error
from infra.server.startup import open_components
from infra.tools.view_rebuild import rebuild_all


def main() -> None:
    components = open_components()
    exit_on_error(lambda: rebuild_all(components))
    components.close()


if __name__ == "__main__":
    main()
