"""All commands except `annals run`: parse arguments, execute the command, return an exit code."""

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

import httpx

from annals_client.cli import exits
from annals_client.cli.commands import COMMANDS
from annals_client.cli.completion import script
from annals_client.cli.parser import create_parser
from annals_client.cli.printing import create_printer, escape_control
from annals_client.cli.server_commands import SERVER_COMMANDS, load_server_command
from annals_client.errors import AnnalsError
from annals_client.synchronous import Annals


def execute(arguments: Sequence[str]) -> int:
    """Execute a command and return its exit code."""
    args = create_parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="annals: %(message)s")
    try:
        _execute(args)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Python would try to flush stdout at exit and report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    except (AnnalsError, *exits.CLI_ERRORS, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        lines = str(error).split("\n")
        sys.stderr.write("".join(f"annals: {escape_control(line)}\n" for line in lines))
        return exits.exit_code(error)
    return exits.OK


def _execute(args: Namespace) -> None:
    printer = create_printer(args.json, args.color)
    if args.command == "completion":
        text = script(create_parser(), args.shell)
        printer.result(text, {"script": text})
    elif args.command in SERVER_COMMANDS:
        load_server_command(args.command).run(args, printer)
    else:
        with _create_client(args) as annals:
            COMMANDS[args.command](args, annals, printer)


def _create_client(args: Namespace) -> Annals:
    if not args.token:
        raise exits.MissingToken("no token: set ANNALS_TOKEN or give --token. `annals token` creates a local one")
    return Annals(args.url, args.token, organization=args.org, deadline_s=args.deadline)
