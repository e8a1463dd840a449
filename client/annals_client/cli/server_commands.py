"""`annals serve`, `annals check` and `annals token` belong to a server. The server's code implements them.

They are available if `infra.server.commands` can be imported, or if this package runs from a source tree of Annals, as
after `make run`.
"""

import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from annals_client.cli.exits import ServerNotInstalled
from annals_client.cli.printing import Printer

SERVER_COMMANDS = ("serve", "token", "check")

_SOURCE_TREE = Path(__file__).resolve().parents[3]
_PACKAGE = "infra.server.commands"


class ServerCommand(Protocol):
    """A module of `infra.server.commands`."""

    def run(self, args: Namespace, printer: Printer) -> None: ...


def load_server_command(name: str) -> ServerCommand:
    """Import the module of a command. Raises `ServerNotInstalled` if the server's code is not available."""
    if (_SOURCE_TREE / _PACKAGE.replace(".", "/")).is_dir() and str(_SOURCE_TREE) not in sys.path:
        sys.path.append(str(_SOURCE_TREE))
    try:
        return cast(ServerCommand, import_module(f"{_PACKAGE}.{name}"))
    except ModuleNotFoundError as error:
        raise ServerNotInstalled(
            f"`annals {name}` needs the server's code and dependencies; the module {error.name} is missing here. "
            f"On the server's machine, run `.venv/bin/annals {name}` in the directory of Annals"
        ) from error
