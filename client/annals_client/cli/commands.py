"""The commands: each asks the client and prints what it says."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from annals_client.cli.exits import Usage
from annals_client.cli.printing import Printer, bar, shown
from annals_client.cli.times import moment, position_before
from annals_client.errors import Torn
from annals_client.synchronous import Annals
from annals_client.values import Condition, Event, Json, NewEvent

Command = Callable[[Namespace, Annals, Printer], None]


def publish(args: Namespace, annals: Annals, printer: Printer) -> None:
    """One event from the command line, or those in a file."""
    published = annals.publish(
        _events(args),
        condition=_condition(args),
        vocabulary=args.vocabulary,
        idempotency_key=args.idempotency_key,
    )
    for event in published.events:
        printer.event(event)
    for ignored in published.ignored:
        _warn(f"event {ignored.place + 1} was not written: {ignored.reason}")


def follow(args: Namespace, annals: Annals, printer: Printer) -> None:
    """Events as they happen. A gap is told, and following goes on after it."""
    for event in islice(_followed(args, annals), args.count):
        printer.event(event)


def query(args: Namespace, annals: Annals, printer: Printer) -> None:
    """One of the three queries."""
    for event in _queried(args, annals):
        printer.event(event)


def snapshot(args: Namespace, annals: Annals, printer: Printer) -> None:
    """A list in brief, or one object whole."""
    one = bool(args.path) and not args.path.endswith(("/", "*"))
    found = annals.snapshot(
        args.collection,
        args.path,
        brief=not one,
        search=args.search,
        state=args.state,
        limit=args.limit,
        at=args.at,
    )
    if one:
        printer.value(found.objects[0])
        return
    if printer.is_json:
        facts = {"eventId": found.event_id, "counts": found.counts, "moreFollows": found.more_follows}
        printer.value({**facts, "elements": found.objects})
        return
    printer.rows(found.objects, ("path", "state", "result", "label", "updatedAt"))
    printer.line(f"at {found.event_id}: annals follow --after {found.event_id}")


def observers(args: Namespace, annals: Annals, printer: Printer) -> None:
    """List, show, put, delete; failures and retry."""
    if args.action == "list":
        printer.rows((dict(one) for one in annals.observers.list()), ("name", "scope", "channel", "deliveries"))
        return
    if args.name is None:
        raise Usage(f"observers {args.action} needs the name of an observer")
    _OBSERVERS[args.action](args, annals, printer)


def replay(args: Namespace, annals: Annals, printer: Printer) -> None:
    """Tell an observer again; a bar says how far it is."""
    since = None if args.since is None else _time(args.since)
    first = args.after if since is None else position_before(since)
    is_live = sys.stderr.isatty() and not printer.is_json
    part = None
    for part in annals.observers.replay(args.name, after=args.after, since=since, until=args.until):
        if is_live:
            sys.stderr.write(f"\r{bar(part, first)}")
            sys.stderr.flush()
        elif printer.is_json or not part.is_done:
            facts = {"eventId": part.event_id, "until": part.until, "deliveries": part.deliveries, "done": part.is_done}
            printer.told(bar(part, first), facts)
    if is_live:
        sys.stderr.write("\n")
    if part is not None and not printer.is_json:
        printer.line(f"{args.name} is told again of {part.deliveries} events")


def report(args: Namespace, annals: Annals, printer: Printer) -> None:
    """All reports, or a link to one."""
    if args.name is None:
        printer.rows((dict(one) for one in annals.reports.list()), ("name", "at", "eventId", "link"))
        return
    link = annals.reports.link(args.name)
    whole = link if "://" in link else f"{args.url.rstrip('/')}/{link.removeprefix('/')}"
    printer.told(whole, {"link": whole})


def system(_: Namespace, annals: Annals, printer: Printer) -> None:
    """Where the log stands."""
    printer.value(annals.system())


def me(_: Namespace, annals: Annals, printer: Printer) -> None:
    """Who the caller is."""
    printer.value(annals.me())


def _show(args: Namespace, annals: Annals, printer: Printer) -> None:
    printer.value(annals.observers.get(args.name))


def _put(args: Namespace, annals: Annals, printer: Printer) -> None:
    configuration = _parsed(_text(args.file))
    if not isinstance(configuration, dict):
        raise Usage("the configuration of an observer is a JSON object")
    printer.value(annals.observers.put(args.name, configuration))


def _delete(args: Namespace, annals: Annals, printer: Printer) -> None:
    annals.observers.delete(args.name)
    printer.told(f"{args.name} is no more", {"deleted": args.name})


def _failures(args: Namespace, annals: Annals, printer: Printer) -> None:
    found = (dict(failure) for failure in annals.observers.failures(args.name))
    printer.rows(found, ("id", "address", "tries", "at", "error"))


def _retry(args: Namespace, annals: Annals, printer: Printer) -> None:
    retried = annals.observers.retry(args.name, args.ids or None)
    printer.told(f"{retried} deliveries are tried again", {"retried": retried})


_OBSERVERS: Mapping[str, Command] = {
    "show": _show,
    "put": _put,
    "delete": _delete,
    "failures": _failures,
    "retry": _retry,
}

COMMANDS: Mapping[str, Command] = {
    "publish": publish,
    "follow": follow,
    "query": query,
    "snapshot": snapshot,
    "observers": observers,
    "replay": replay,
    "report": report,
    "system": system,
    "me": me,
}
"""Those that ask the server."""


def _followed(args: Namespace, annals: Annals) -> Iterator[Event]:
    if args.after is not None:
        after = args.after
    elif args.since is not None:
        after = position_before(_time(args.since))
    else:
        newest = annals.newest(args.lines, types=args.types, keys=args.keys)
        yield from newest.events
        after = newest.event_id
    while True:
        try:
            yield from annals.follow(types=args.types, keys=args.keys, after=after, to_now=args.no_wait)
        except Torn as torn:
            _warn(f"what came before {torn.event_id} is no longer kept")
            after = torn.event_id
        else:
            return


_OF_TIMESERIES = ("since", "until", "order", "order_by")
_USELESS: Mapping[str, Sequence[str]] = {
    "latest": _OF_TIMESERIES,
    "server": ("types", *_OF_TIMESERIES),
    "timeseries": (),
}
"""Of each query: the options that are others'."""


def _queried(args: Namespace, annals: Annals) -> Iterable[Event]:
    _refuse(args, f"query {args.query}", _USELESS[args.query])
    match args.query:
        case "latest":
            return annals.query.latest(args.types)[: args.max]
        case "server":
            return annals.query.server(max_results=args.max)
        case _:
            return annals.query.timeseries(
                args.types,
                t_from=None if args.since is None else _time(args.since),
                t_to=None if args.until is None else _time(args.until),
                order=args.order or "descending",
                order_by=args.order_by or "timestamp",
                max_results=args.max,
            )


def _events(args: Namespace) -> Iterable[NewEvent | Mapping[str, Any]]:
    if args.type is not None:
        if args.file != "-":
            raise Usage("a type is one event: --file would not be read")
        payload = None if args.data is None else Json(_parsed(args.data))
        return [NewEvent(args.type, args.key, payload)]
    _refuse(args, "publish without a type", ("key", "data"))
    text = _text(args.file)
    try:
        whole = json.loads(text)
    except ValueError:
        return [_parsed(line) for line in text.splitlines() if line.strip()]
    if isinstance(whole, dict) and "events" in whole:
        whole = whole["events"]
    return whole if isinstance(whole, list) else [whole]


def _condition(args: Namespace) -> Condition | None:
    if args.fail_if_types is None and args.fail_if_keys is None:
        _refuse(args, "publish without --fail-if-types or --fail-if-keys", ("after",))
        return None
    return Condition(args.fail_if_types, args.fail_if_keys, args.after or 0)


def _refuse(args: Namespace, command: str, useless: Iterable[str]) -> None:
    """Refuse options that would have no effect: who gives one thinks that it has."""
    for name in useless:
        if getattr(args, name) is not None:
            raise Usage(f"{command} has no use for --{name.replace('_', '-')}")


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as failure:
        raise Usage(f"this is not JSON ({failure}): {text[:80]}") from failure


def _time(text: str) -> datetime:
    try:
        return moment(text, datetime.now().astimezone())
    except ValueError as failure:
        raise Usage(f"{text} is no time: write 2026-11-04T11:07Z, or how long ago: 10m, 2h, 3d") from failure


def _warn(words: str) -> None:
    sys.stderr.write(f"annals: {shown(words)}\n")
