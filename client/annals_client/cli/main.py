"""`annals`: from the command line to an exit code."""

import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import httpx

from annals_client.cli import exits
from annals_client.cli.checking import check_data
from annals_client.cli.commands import COMMANDS
from annals_client.cli.completion import script
from annals_client.cli.parser import parser
from annals_client.cli.printing import printer, shown
from annals_client.cli.tokens import HOW, local_key, signed
from annals_client.errors import AnnalsError
from annals_client.synchronous import Annals


def main() -> None:
    """What the shell starts."""
    sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Do what the words say; the exit code."""
    args = parser().parse_args(words)
    logging.basicConfig(level=logging.WARNING, format="annals: %(message)s")
    try:
        _do(args)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer cannot go anywhere; Python would complain about it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    except (AnnalsError, *exits.OWN, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as failure:
        lines = str(failure).split("\n")
        sys.stderr.write("".join(f"annals: {shown(line)}\n" for line in lines))
        return exits.code_of(failure)
    return exits.OK


def _do(args: Namespace) -> None:
    prints = printer(args.json, args.color)
    if args.command == "completion":
        text = script(parser(), args.shell)
        prints.told(text, {"script": text})
    elif args.command == "token":
        made = _token(args)
        prints.told(made, {"token": made})
    elif args.command == "check":
        check_data(args, prints)
    else:
        with _client(args) as annals:
            COMMANDS[args.command](args, annals, prints)


def _client(args: Namespace) -> Annals:
    if not args.token:
        raise exits.NoToken("there is no token: set ANNALS_TOKEN or give --token; `annals token` makes a local one")
    return Annals(args.url, args.token, organization=args.org, deadline_s=args.deadline)


def _token(args: Namespace) -> str:
    key = local_key(Path(args.data_dir), os.environ.get("JWT_KEY"))
    if key is None:
        raise exits.NoToken(HOW.format(data_dir=args.data_dir))
    organizations = (args.orgs or args.org or "local").split(",")
    return signed(key, args.user, organizations, args.groups.split(","), int(time.time()))
