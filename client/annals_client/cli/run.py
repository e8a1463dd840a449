"""`annals run`: parse the options, run the command. It imports little before the command starts."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import PurePath

from annals_client.cli.parser import create_run_parser
from annals_client.cli.times import parse_duration
from annals_client.run.command import Options, run

MAX_NAME_BYTES = 100
"""Of a job type and of a node. Each output line is an event that contains both."""


def run_command(arguments: Sequence[str]) -> int:
    """Run `annals run` and return the exit code of the command."""
    parser = create_run_parser()
    has_command = "--" in arguments
    place = arguments.index("--") if has_command else len(arguments)
    args = parser.parse_args(arguments[:place])
    command = list(arguments[place + 1 :])
    if args.flush:
        if command:
            parser.error("--flush runs no command")
        from annals_client.cli.flush import flush  # noqa: PLC0415  (imports httpx)

        return flush(args.url, args.token, args.org)
    if not command:
        parser.error("write the command after --, for example: annals run --name backup -- pg_dump orders")
    code = run(_options(parser, args, command))
    # The interpreter's own end would take some milliseconds, and could wait for a thread.
    os._exit(code)


def _options(parser: ArgumentParser, args: Namespace, command: list[str]) -> Options:
    props = _pairs(parser, "--prop", args.prop)
    if args.author is not None:
        props["author"] = _text(args.author)
    return Options(
        command=command,
        name=_name(parser, "--name", args.name or PurePath(command[0]).name),
        node=_name(parser, "--node", args.node or os.uname().nodename),
        params=_pairs(parser, "--param", args.param),
        props=props,
        job_id=_job_id(parser, args.id),
        timeout_s=None if args.timeout is None else _duration(parser, "--timeout", args.timeout),
        timeout_text=args.timeout or "",
        grace_s=_duration(parser, "--kill-after", args.kill_after),
        wait_s=_duration(parser, "--wait", args.wait),
        is_quiet=args.quiet,
        url=args.url,
        token=args.token,
        organization=args.org,
    )


def _pairs(parser: ArgumentParser, option: str, texts: Sequence[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts or ():
        key, separator, value = _text(text).partition("=")
        if not key or not separator:
            parser.error(f"{option} {text}: write KEY=VALUE")
        pairs[key] = value
    return pairs


def _name(parser: ArgumentParser, option: str, text: str) -> str:
    name = _text(text)
    if not name or set(name) & set("/?*") or len(name.encode()) > MAX_NAME_BYTES:
        parser.error(f"{option} {name}: a name has 1 to {MAX_NAME_BYTES} bytes and none of / ? *")
    return name


def _job_id(parser: ArgumentParser, number: int | None) -> int | None:
    if number is not None and not 0 <= number < 2**53:
        parser.error(f"--id {number}: the number of a job is between 0 and {2**53 - 1}")
    return number


def _duration(parser: ArgumentParser, option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        parser.error(f"{option} {text}: write a duration such as 90s, 10m, 2h or 1h30m")


def _text(argument: str) -> str:
    """Command-line arguments may have bytes that are not UTF-8."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
