"""The commands that call the server and print the result."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from annals_client.calls.observers import MAX_DELIVERIES
from annals_client.cli.exits import NotWritten, UsageError
from annals_client.cli.printing import Printer, escape_control, progress_bar
from annals_client.cli.times import parse_time, position_before
from annals_client.errors import Torn
from annals_client.synchronous import Annals
from annals_client.values import Condition, Event, Json, NewEvent

Command = Callable[[Namespace, Annals, Printer], None]


def publish(args: Namespace, annals: Annals, printer: Printer) -> None:
    published = annals.publish(
        _read_events(args),
        condition=_condition(args),
        vocabulary=args.vocabulary,
        idempotency_key=args.idempotency_key,
    )
    for event in published.events:
        printer.event(event)
    for ignored in published.ignored:
        _warn(f"event {ignored.place + 1} was not written: {ignored.reason}")
    if published.ignored:
        count = len(published.ignored)
        raise NotWritten(f"{count} event{'s were' if count > 1 else ' was'} not written")


def follow(args: Namespace, annals: Annals, printer: Printer) -> None:
    """Print events as they happen. A gap causes a warning, and following continues after it."""
    for event in islice(_follow_events(args, annals), args.count):
        printer.event(event)


def query(args: Namespace, annals: Annals, printer: Printer) -> None:
    for event in _query_events(args, annals):
        printer.event(event)


def snapshot(args: Namespace, annals: Annals, printer: Printer) -> None:
    """Print a brief list of objects, or one whole object."""
    is_single = bool(args.path) and not args.path.endswith(("/", "*"))
    result = annals.snapshot(
        args.collection,
        args.path,
        brief=not is_single,
        search=args.search,
        state=args.state,
        result=args.result,
        type=args.type,
        node=args.node,
        author=args.author,
        since=None if args.since is None else _parse_time(args.since),
        until=None if args.until is None else _parse_time(args.until),
        q=args.words,
        limit=args.limit,
        at=args.at,
    )
    if is_single:
        printer.value(result.objects[0])
        return
    if printer.is_json:
        facts = {"eventId": result.event_id, "counts": result.counts, "moreFollows": result.more_follows}
        printer.value({**facts, "elements": result.objects})
        return
    printer.rows(result.objects, ("path", "state", "result", "label", "updatedAt"))
    printer.line(f"To follow changes: annals follow --after {result.event_id}")


def observers(args: Namespace, annals: Annals, printer: Printer) -> None:
    if args.action == "list":
        printer.rows(
            (dict(observer) for observer in annals.observers.list()), ("name", "scope", "channel", "deliveries")
        )
        return
    if args.name is None:
        raise UsageError(f"observers {args.action} needs the name of an observer")
    _OBSERVER_ACTIONS[args.action](args, annals, printer)


def expectations(args: Namespace, annals: Annals, printer: Printer) -> None:
    if args.action == "list":
        rows = (dict(expectation) for expectation in annals.expectations.list())
        printer.rows(rows, ("name", "state", "stateSince", "nextExpectedAt"))
        return
    if args.name is None:
        raise UsageError(f"expectations {args.action} needs the name of an expectation")
    match args.action:
        case "show":
            printer.value(annals.expectations.get(args.name))
        case "put":
            printer.value(annals.expectations.put(args.name, _read_configuration(args, "an expectation")))
        case _:
            annals.expectations.delete(args.name)
            printer.result(f"{args.name} is deleted", {"deleted": args.name})


def replay(args: Namespace, annals: Annals, printer: Printer) -> None:
    """Replay events to an observer, with a progress bar on a terminal."""
    since = None if args.since is None else _parse_time(args.since)
    first = args.after if since is None else position_before(since)
    is_live = sys.stderr.isatty() and not printer.is_json
    part = None
    for part in annals.observers.replay(args.name, after=args.after, since=since, until=args.until):
        if is_live:
            sys.stderr.write(f"\r{progress_bar(part, first)}")
            sys.stderr.flush()
        elif printer.is_json or not part.is_done:
            facts = {"eventId": part.event_id, "until": part.until, "deliveries": part.deliveries, "done": part.is_done}
            printer.result(progress_bar(part, first), facts)
    if is_live:
        sys.stderr.write("\n")
    if part is not None and not printer.is_json:
        printer.line(f"{part.deliveries} deliveries to {args.name} are queued again")


def report(args: Namespace, annals: Annals, printer: Printer) -> None:
    if args.name is None:
        printer.rows((dict(report) for report in annals.reports.list()), ("name", "at", "eventId", "link"))
        return
    link = annals.reports.link(args.name)
    url = link if "://" in link else f"{args.url.rstrip('/')}/{link.removeprefix('/')}"
    printer.result(url, {"link": url})


def system(_: Namespace, annals: Annals, printer: Printer) -> None:
    printer.value(annals.system())


def me(_: Namespace, annals: Annals, printer: Printer) -> None:
    printer.value(annals.me())


def _show(args: Namespace, annals: Annals, printer: Printer) -> None:
    printer.value(annals.observers.get(args.name))


def _put(args: Namespace, annals: Annals, printer: Printer) -> None:
    printer.value(annals.observers.put(args.name, _read_configuration(args, "an observer")))


def _read_configuration(args: Namespace, whose: str) -> dict[str, Any]:
    configuration = _parse_json(_read_text(args.file))
    if not isinstance(configuration, dict):
        raise UsageError(f"the configuration of {whose} must be a JSON object")
    return configuration


def _delete(args: Namespace, annals: Annals, printer: Printer) -> None:
    annals.observers.delete(args.name)
    printer.result(f"{args.name} is deleted", {"deleted": args.name})


def _failures(args: Namespace, annals: Annals, printer: Printer) -> None:
    failures = (dict(entry) for entry in annals.observers.failures(args.name))
    printer.rows(failures, ("id", "address", "tries", "at", "error"))


def _deliveries(args: Namespace, annals: Annals, printer: Printer) -> None:
    page = max(min(args.limit, MAX_DELIVERIES), 1)
    entries = islice(annals.observers.deliveries(args.name, page=page), max(args.limit, 0))
    rows = ({**entry, "type": entry["type"] if printer.is_json else "/".join(entry["type"] or ())} for entry in entries)
    printer.rows(rows, ("at", "state", "address", "type", "key", "tries", "error"))


def _retry(args: Namespace, annals: Annals, printer: Printer) -> None:
    retried = annals.observers.retry(args.name, args.ids or None)
    printer.result(f"{retried} deliveries will be retried", {"retried": retried})


_OBSERVER_ACTIONS: Mapping[str, Command] = {
    "show": _show,
    "put": _put,
    "delete": _delete,
    "deliveries": _deliveries,
    "failures": _failures,
    "retry": _retry,
}

COMMANDS: Mapping[str, Command] = {
    "publish": publish,
    "follow": follow,
    "query": query,
    "snapshot": snapshot,
    "observers": observers,
    "expectations": expectations,
    "replay": replay,
    "report": report,
    "system": system,
    "me": me,
}


def _follow_events(args: Namespace, annals: Annals) -> Iterator[Event]:
    if args.after is not None:
        after = args.after
    elif args.since is not None:
        after = position_before(_parse_time(args.since))
    else:
        newest = annals.newest(args.lines, types=args.types, keys=args.keys, tags=args.tags)
        yield from newest.events
        after = newest.event_id
    while True:
        try:
            yield from annals.follow(types=args.types, keys=args.keys, tags=args.tags, after=after, to_now=args.no_wait)
        except Torn as torn:
            _warn(f"events up to {torn.event_id} were removed by retention")
            after = torn.event_id
        else:
            return


_TIMESERIES_OPTIONS = ("since", "until", "order", "order_by")
_UNUSED_OPTIONS: Mapping[str, Sequence[str]] = {
    "latest": _TIMESERIES_OPTIONS,
    "server": ("types", *_TIMESERIES_OPTIONS),
    "timeseries": (),
}
"""Options that have no effect on each query."""


def _query_events(args: Namespace, annals: Annals) -> Iterable[Event]:
    _reject_unused_options(args, f"query {args.query}", _UNUSED_OPTIONS[args.query])
    match args.query:
        case "latest":
            return annals.query.latest(args.types)[: args.max]
        case "server":
            return annals.query.server(max_results=args.max)
        case _:
            return annals.query.timeseries(
                args.types,
                t_from=None if args.since is None else _parse_time(args.since),
                t_to=None if args.until is None else _parse_time(args.until),
                order=args.order or "descending",
                order_by=args.order_by or "timestamp",
                max_results=args.max,
            )


def _read_events(args: Namespace) -> Iterable[NewEvent | Mapping[str, Any]]:
    if args.type is not None:
        if args.file != "-":
            raise UsageError("give either a type or --file, not both")
        payload = None if args.data is None else Json(_parse_json(args.data))
        return [NewEvent(args.type, args.key, payload, tags=args.tag or ())]
    _reject_unused_options(args, "publish without a type", ("key", "data", "tag"))
    text = _read_text(args.file)
    try:
        document = json.loads(text)
    except ValueError:
        return [_parse_json(line) for line in text.splitlines() if line.strip()]
    if isinstance(document, dict) and "events" in document:
        document = document["events"]
    return document if isinstance(document, list) else [document]


def _condition(args: Namespace) -> Condition | None:
    if args.fail_if_types is None and args.fail_if_keys is None and args.fail_if_tags is None:
        _reject_unused_options(args, "publish without a --fail-if option", ("after",))
        return None
    return Condition(args.fail_if_types, args.fail_if_keys, args.after or 0, args.fail_if_tags)


def _reject_unused_options(args: Namespace, command: str, unused: Iterable[str]) -> None:
    """Raise `UsageError` for options that would have no effect."""
    for name in unused:
        if getattr(args, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} has no effect on {command}")


def _read_text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text()


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"invalid JSON ({error}): {text[:80]}") from error


def _parse_time(text: str) -> datetime:
    try:
        return parse_time(text, datetime.now().astimezone())
    except ValueError as error:
        raise UsageError(
            f"{text} is not a valid time: write 2026-11-04T11:07Z, or a duration before now: 10m, 2h, 3d"
        ) from error


def _warn(text: str) -> None:
    sys.stderr.write(f"annals: {escape_control(text)}\n")
