"""The argument parser of the `annals` command."""

import argparse
import os

DEFAULT_URL = "http://127.0.0.1:8000"
COLLECTIONS = (
    "job",
    "jobset",
    "jobType",
    "order",
    "jobChain",
    "schedulerJob",
    "task",
    "fileBased",
    "scheduler",
    "pushJob",
)
VOCABULARIES = ("job", "scheduler", "push")
SHELLS = ("bash", "zsh", "fish")
RUN_USAGE = "annals run [OPTION]... -- COMMAND [ARGUMENT]..."
RUN_DESCRIPTION = "Run a command, and report it as a job."
Commands = argparse._SubParsersAction


def create_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Defaults for URL, token and data directory come from the environment."""
    top = argparse.ArgumentParser(prog="annals", description="Publish events to Annals, follow and query them.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = _common_options()
    for add in (
        _run,
        _publish,
        _follow,
        _query,
        _snapshot,
        _observers,
        _expectations,
        _replay,
        _report,
        _system,
        _me,
        _serve,
        _token,
        _check,
    ):
        add(commands, common)
    _completion(commands, common)
    return top


def create_run_parser() -> argparse.ArgumentParser:
    """The parser of `annals run` alone, because the parser of all commands takes longer to create."""
    parser = argparse.ArgumentParser(prog="annals run", usage=RUN_USAGE, description=RUN_DESCRIPTION)
    _add_run_options(parser)
    return parser


def _add_connection_options(parser: argparse.ArgumentParser, default_url: str | None) -> None:
    url = os.environ.get("ANNALS_URL") or default_url
    parser.add_argument("--url", default=url, help="URL of the API (ANNALS_URL)")
    parser.add_argument("--token", default=os.environ.get("ANNALS_TOKEN"), help="your token (ANNALS_TOKEN)")
    parser.add_argument("--org", help="organization; default: the first in the token")


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    _add_connection_options(common, DEFAULT_URL)
    common.add_argument("--deadline", type=float, default=30.0, metavar="S", help="seconds to keep retrying")
    common.add_argument("--json", action="store_true", help="print one JSON value per line")
    common.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="also: NO_COLOR")
    return common


def _command(
    commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser, name: str, description: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, parents=[common], help=description, description=description
    )
    return parser


def _run(commands: "Commands[argparse.ArgumentParser]", _: argparse.ArgumentParser) -> None:
    command = commands.add_parser("run", usage=RUN_USAGE, help=RUN_DESCRIPTION, description=RUN_DESCRIPTION)
    _add_run_options(command)


def _add_run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", help="type of the job; default: the name of the command")
    command.add_argument("--node", help="default: the name of this machine")
    command.add_argument("--param", action="append", metavar="K=V", help="parameter of the job; repeatable")
    command.add_argument("--prop", action="append", metavar="K=V", help="property of the job, for example nomail=1")
    command.add_argument("--author", help="author of the job, for private observers")
    command.add_argument("--id", type=int, metavar="N", help="number of the job; default: the server assigns one")
    command.add_argument("--timeout", metavar="TIME", help="end the command after a time: 90s, 10m, 2h, 1h30m")
    command.add_argument(
        "--kill-after", default="10s", metavar="TIME", help="after --timeout, time between SIGTERM and SIGKILL (10s)"
    )
    command.add_argument(
        "--wait", default="5s", metavar="TIME", help="how long to wait for the report after the command (5s)"
    )
    command.add_argument("--quiet", action="store_true", help="print no warnings about the report")
    command.add_argument("--flush", action="store_true", help="run no command: send the reports of earlier runs")
    _add_connection_options(command, None)


def _publish(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "publish", "Append one event, or the events in a file.")
    command.add_argument("type", nargs="?", help="for example deploy/started; without it, events are read from --file")
    command.add_argument("--key", help="key of the event")
    command.add_argument("--data", metavar="JSON", help="payload of the event")
    command.add_argument(
        "--tag", action="append", metavar="TAG", help="tag of the event, for example show:1; repeatable"
    )
    command.add_argument("--file", default="-", help="events as JSON, one per line or a list (-: stdin)")
    command.add_argument("--vocabulary", choices=VOCABULARIES, help="vocabulary of the events in the file")
    command.add_argument("--idempotency-key", metavar="KEY", help="makes it safe to repeat the command")
    command.add_argument("--fail-if-types", action="append", metavar="PATTERN", help="fail if an event has such a type")
    command.add_argument("--fail-if-keys", action="append", metavar="KEY", help="fail if an event has this key")
    command.add_argument("--fail-if-tags", action="append", metavar="TAG", help="fail if an event has all these tags")
    command.add_argument(
        "--after", type=int, metavar="EVENTID", help="position after which the --fail-if options apply"
    )


def _follow(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "follow", "Print events as they happen, like tail -f.")
    _add_filter_options(command, keys=True)
    start = command.add_mutually_exclusive_group()
    start.add_argument("-n", "--lines", type=int, default=10, metavar="N", help="start with the last N events (10)")
    start.add_argument("--since", metavar="TIME", help="start at a time, or a duration before now: 10m, 2h, 3d")
    start.add_argument(
        "--after", type=int, metavar="EVENTID", help="start after a position; 0: the oldest retained event"
    )
    command.add_argument("--count", type=int, metavar="N", help="stop after N events")
    command.add_argument("--no-wait", action="store_true", help="stop at the end of the log")


def _query(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "query", "Query events: the latest of each type, by time, or by id.")
    command.add_argument("query", choices=("latest", "timeseries", "server"))
    _add_filter_options(command, keys=False)
    command.add_argument("--since", metavar="TIME", help="timeseries: start time")
    command.add_argument("--until", metavar="TIME", help="timeseries: end time")
    command.add_argument("--order", choices=("ascending", "descending"), help="timeseries")
    command.add_argument("--order-by", choices=("timestamp", "sourceTimestamp"), help="timeseries")
    command.add_argument("-n", "--max", type=int, metavar="N", help="maximum number of events; default: all")


def _snapshot(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "snapshot", "Print objects and the position to follow from.")
    command.add_argument("collection", choices=COLLECTIONS)
    command.add_argument(
        "path", nargs="?", default="", help="one object, or folder/ for all objects in it; default: all"
    )
    command.add_argument("--search", help="text in path or label")
    command.add_argument("--state")
    command.add_argument("--result", choices=("success", "failure", "timeout"), help="how the objects ended")
    command.add_argument("--type", help="type of the jobs")
    command.add_argument("--node")
    command.add_argument("--author")
    command.add_argument("--since", metavar="TIME", help="last change at or after this time")
    command.add_argument("--until", metavar="TIME", help="last change before this time")
    command.add_argument("-q", dest="words", metavar="WORDS", help="words in path, label, parameters or message")
    command.add_argument("-n", "--limit", type=int, metavar="N")
    command.add_argument("--at", type=int, metavar="EVENTID", help="state of one object after that event")


def _observers(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(
        commands, common, "observers", "List, show, change and delete observers, and list and retry their deliveries."
    )
    actions = ("list", "show", "put", "delete", "deliveries", "failures", "retry")
    command.add_argument("action", nargs="?", choices=actions, default="list")
    command.add_argument("name", nargs="?")
    command.add_argument("ids", nargs="*", help="retry: ids of deliveries; default: all")
    command.add_argument("--file", default="-", help="put: configuration as JSON (-: stdin)")
    command.add_argument("-n", "--limit", type=int, default=50, metavar="N", help="deliveries: the newest N (50)")


def _expectations(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "expectations", "List, show, change and delete what is expected of jobs.")
    command.add_argument("action", nargs="?", choices=("list", "show", "put", "delete"), default="list")
    command.add_argument("name", nargs="?")
    command.add_argument("--file", default="-", help="put: configuration as JSON (-: stdin)")


def _replay(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "replay", "Deliver past events to an observer again.")
    command.add_argument("name")
    start = command.add_mutually_exclusive_group(required=True)
    start.add_argument("--since", metavar="TIME", help="a time, or a duration before now: 10m, 2h, 3d")
    start.add_argument("--after", type=int, metavar="EVENTID")
    command.add_argument("--until", type=int, metavar="EVENTID")


def _report(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "report", "List the finished reports, or print a link to one.")
    command.add_argument("name", nargs="?", help="print a link to this report, valid for a minute")


def _system(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    _command(commands, common, "system", "Print the status of the log and its consumers.")


def _me(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    _command(commands, common, "me", "Print the user and permissions of your token.")


def _serve(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "serve", "Run the server, configured by environment variables.")
    _add_data_dir_option(command)


def _token(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "token", "Create a token for the server on this machine.")
    command.add_argument("--user", default="operator")
    command.add_argument("--orgs", help="comma-separated organizations; default: --org, else local")
    command.add_argument("--groups", default="readers,publishers", help="comma-separated: readers, publishers, admins")
    _add_data_dir_option(command)


def _check(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "check", "Check the data of the server on this machine for damage.")
    _add_data_dir_option(command)


def _completion(commands: "Commands[argparse.ArgumentParser]", common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "completion", "Print a completion script for a shell.")
    command.add_argument("shell", choices=SHELLS)


def _add_data_dir_option(command: argparse.ArgumentParser) -> None:
    data_dir = os.environ.get("DATA_DIR") or "data"
    command.add_argument("--data-dir", default=data_dir, help="data directory of the server (DATA_DIR)")


def _add_filter_options(command: argparse.ArgumentParser, keys: bool) -> None:
    command.add_argument("--types", action="append", metavar="PATTERN", help="for example 'job/finish/*'; repeatable")
    if keys:
        command.add_argument("--keys", action="append", metavar="KEY", help="repeatable")
        command.add_argument("--tags", action="append", metavar="TAG", help="events with all these tags; repeatable")
