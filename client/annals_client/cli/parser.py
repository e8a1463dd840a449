"""The command line."""

import argparse
import os

DEFAULT_URL = "http://127.0.0.1:8000"
COLLECTIONS = ("job", "jobset", "order", "jobChain", "schedulerJob", "task", "fileBased", "scheduler", "pushJob")
VOCABULARIES = ("job", "scheduler", "push")
SHELLS = ("bash", "zsh", "fish")
Commands = argparse._SubParsersAction


def parser() -> argparse.ArgumentParser:
    """All commands with their options; addresses and tokens come from the environment unless they are given."""
    top = argparse.ArgumentParser(prog="annals", description="Publish to Annals, follow it, ask it.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = _common()
    for add in (_publish, _follow, _query, _snapshot, _observers, _replay, _report, _system, _me, _token, _check):
        add(commands, common)
    _completion(commands, common)
    return top


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    url = os.environ.get("ANNALS_URL") or DEFAULT_URL
    common.add_argument("--url", default=url, help="address of the API (ANNALS_URL)")
    common.add_argument("--token", default=os.environ.get("ANNALS_TOKEN"), help="your token (ANNALS_TOKEN)")
    common.add_argument("--org", help="the organization meant, if not the first of the token")
    common.add_argument("--deadline", type=float, default=30.0, metavar="S", help="how long to try, in seconds")
    common.add_argument("--json", action="store_true", help="one JSON value a line, for programs")
    common.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="also: NO_COLOR")
    return common


def _command(
    commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser, name: str, words: str
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, parents=[common], help=words, description=words)
    return made


def _publish(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "publish", "Append events: one, or those in a file.")
    command.add_argument("type", nargs="?", help="such as deploy/started; without it events are read from --file")
    command.add_argument("--key", help="what the event is about")
    command.add_argument("--data", metavar="JSON", help="its payload")
    command.add_argument("--file", default="-", help="JSON: events a line each, or a list of them (- is stdin)")
    command.add_argument("--vocabulary", choices=VOCABULARIES, help="the language of the events in the file")
    command.add_argument("--idempotency-key", metavar="KEY", help="who repeats the command with it publishes once")
    command.add_argument("--fail-if-types", action="append", metavar="PATTERN", help="refuse if there is such an event")
    command.add_argument("--fail-if-keys", action="append", metavar="KEY", help="refuse if there is an event of this")
    command.add_argument("--after", type=int, metavar="EVENTID", help="... after this position")


def _follow(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "follow", "Print events as they happen, like tail -f.")
    _selecting(command, keys=True)
    start = command.add_mutually_exclusive_group()
    start.add_argument("-n", "--lines", type=int, default=10, metavar="N", help="begin with the last N (10)")
    start.add_argument("--since", metavar="TIME", help="begin at a time, or so long ago: 10m, 2h, 3d")
    start.add_argument("--after", type=int, metavar="EVENTID", help="begin after a position; 0: all that is kept")
    command.add_argument("--count", type=int, metavar="N", help="end after so many events")
    command.add_argument("--no-wait", action="store_true", help="end when there are no more")


def _query(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "query", "Ask for events: the latest of each type, by time, or by id.")
    command.add_argument("query", choices=("latest", "timeseries", "server"))
    _selecting(command, keys=False)
    command.add_argument("--since", metavar="TIME", help="of timeseries: not before")
    command.add_argument("--until", metavar="TIME", help="of timeseries: not after")
    command.add_argument("--order", choices=("ascending", "descending"), help="of timeseries")
    command.add_argument("--order-by", choices=("timestamp", "sourceTimestamp"), help="of timeseries")
    command.add_argument("-n", "--max", type=int, metavar="N", help="at most so many; all unless given")


def _snapshot(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "snapshot", "Objects as they are, and the position to follow from.")
    command.add_argument("collection", choices=COLLECTIONS)
    command.add_argument("path", nargs="?", default="", help="one object, or folder/ for all below it; or all")
    command.add_argument("--search", help="in path and label")
    command.add_argument("--state")
    command.add_argument("-n", "--limit", type=int, metavar="N")
    command.add_argument("--at", type=int, metavar="EVENTID", help="one object as it was right after that event")


def _observers(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "observers", "Who is told about which events.")
    actions = ("list", "show", "put", "delete", "failures", "retry")
    command.add_argument("action", nargs="?", choices=actions, default="list")
    command.add_argument("name", nargs="?")
    command.add_argument("ids", nargs="*", help="of retry: which deliveries; all unless given")
    command.add_argument("--file", default="-", help="of put: its configuration, JSON (- is stdin)")


def _replay(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "replay", "Tell an observer again what was before.")
    command.add_argument("name")
    start = command.add_mutually_exclusive_group(required=True)
    start.add_argument("--since", metavar="TIME", help="a time, or how long ago: 10m, 2h, 3d")
    start.add_argument("--after", type=int, metavar="EVENTID")
    command.add_argument("--until", type=int, metavar="EVENTID")


def _report(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "report", "The reports that became ready, or a link to one.")
    command.add_argument("name", nargs="?", help="print a link to its page, good for a minute")


def _system(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    _command(commands, common, "system", "Where the log stands, and how far its consumers are.")


def _me(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    _command(commands, common, "me", "Who your token says you are.")


def _token(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "token", "Make a token for the server on this machine.")
    command.add_argument("--user", default="operator")
    command.add_argument("--orgs", help="one or more, separated by commas; --org, else local")
    command.add_argument("--groups", default="readers,publishers", help="of readers, publishers, admins")
    _in_data_dir(command)


def _check(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "check", "Look for damage in the data of the server on this machine.")
    _in_data_dir(command)


def _completion(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "completion", "Print what makes a shell complete this command.")
    command.add_argument("shell", choices=SHELLS)


def _in_data_dir(command: argparse.ArgumentParser) -> None:
    data_dir = os.environ.get("DATA_DIR") or "data"
    command.add_argument("--data-dir", default=data_dir, help="the server's (DATA_DIR)")


def _selecting(command: argparse.ArgumentParser, keys: bool) -> None:
    command.add_argument("--types", action="append", metavar="PATTERN", help="such as 'job/finish/*'; repeatable")
    if keys:
        command.add_argument("--keys", action="append", metavar="KEY", help="repeatable")
