"""Entry point of the `annals` command."""

import sys
from collections.abc import Sequence


def main() -> None:
    """Console script entry point."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    # `annals run` starts its command before it imports a client, which takes five times as long.
    if arguments[:1] == ["run"]:
        from annals_client.cli.run import run_command  # noqa: PLC0415

        return run_command(arguments[1:])
    from annals_client.cli.execution import execute  # noqa: PLC0415

    return execute(arguments)
