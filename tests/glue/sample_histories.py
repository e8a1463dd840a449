"""Generated histories: odd ones for hypothesis, and a plausible one of a few days.

A history is the commits of several logs. It consists of lifecycles: all events about a job, job set, order or push job,
some of them missing, duplicated or late. It also contains events that no report should count.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from tests.glue.export_writer import FULL, INCREMENTAL, Commit, Export, commits_in_order, event_text

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]
History = tuple[Commit, ...]
TimedEvent = tuple[int, str]
"""A time and the text of an event."""

START_US: Final = int(datetime(2024, 2, 27, tzinfo=UTC).timestamp()) * 1_000_000
SECOND_US: Final = 1_000_000
HOUR_US: Final = 3600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

SERVERS: Final = (1, 1, 1, 2, 2, 3, 0, -2)
"""Logs of lifecycles. Logs below 1 are internal."""

ODD_TEXTS: Final = (
    "ä",
    "😀",
    'say "x"',
    "back\\slash",
    ',"payload":',
    '\\",\\"payload\\":null}',
    "line\nbreak",
    "\u2028",
    "\u0000",
    " ",
    "null",
    "{}",
)
NODES: Final = ("n1", "n2", "N1", *ODD_TEXTS)
JOB_TYPES: Final = ("build", "test", "Build", *ODD_TEXTS)
JOB_KEYS: Final = tuple(f"/job/{n}" for n in (0, 1, 2, 3, 10, 20, 9_999_999_999_999_999))
SET_KEYS: Final = ("/jobset/0", "/jobset/1", "/jobset/2", "/jobset/7000000000")
ORDER_KEYS: Final = ("/c,1", "/c,2", "/c,1,2", "/d/e,1", "xy,1", '/ä",payload,\\', "/line\nbreak,a\nb", "/c, ")
PUSH_KEYS: Final = ("/push/a", "/push/b", "/push/ab", '/push/ä "\\', "/push/,", "/push/line\nbreak")
NO_KEYS: Final = (
    *("/job/007", "/job/x", "/job/", "/job", "/job/1 ", "/job/1\n", "/job/+1", "/job/-1", "/job/\u0661"),
    *("/job/1/2", "job/1", "/JOB/1", "/job/99999999999999999", "/jobset/01", "/jobset/", "/jobset/1\n", "/jobset/x"),
    *("/c", "/,1", ",1", "/c,", ",", "c,1", "😀,1", "/push/", "/push/a/b", "/push", "push/a", "/push//"),
    *ODD_TEXTS,
    None,
)
"""Keys that are invalid for at least some types."""
NO_TYPES: Final = (
    *((), ("job",), ("job", "create"), ("job", "create", "n1"), ("job", "create", "n1", "build", "x")),
    *(("job", "redirect", "n1", "build"), ("job", "explode", "n1", "build"), ("Job", "create", "n1", "build")),
    *(("jobset", "createJobSet"), ("jobset", "createJobSet", "n1", "x"), ("jobset", "create", "n1")),
    *(("job", "createJobSet", "n1"), ("scheduler", "OrderEvent"), ("scheduler", "OrderAdded")),
    *(("scheduler", "OrderEvent", "OrderExploded"), ("scheduler", "TaskEvent", "TaskStarted"), ("scheduler", "Logged")),
    *(("scheduler", "JobEvent", "OrderAdded"), ("scheduler", "OrderEvent", "OrderAdded", "x"), ("push",)),
    *(("push", "start", "x"), ("push", "stop"), ("custom", *ODD_TEXTS)),
)
ORDER_EVENTS: Final = (
    *("OrderAdded", "OrderRemoved", "OrderStarted", "OrderFinished", "OrderNestedStarted", "OrderNestedFinished"),
    *("OrderStepStarted", "OrderStepEnded", "OrderSetBack", "OrderNodeChanged", "OrderSuspended", "OrderResumed"),
    "OrderWaitingInTask",
)
PUSH_EVENTS: Final = ("start", "quorum_vote", "quorum_succeeded", "run_start", "run_complete", "job_complete", "rehab")
BINARY: Final = {"type": "binary", "name": "raw", "data": "c3VjY2Vzcw=="}
NO_DATA: Final[tuple[Any, ...]] = (None, "success", 1, True, [], [{"success": "1"}], {}, {"data": {}})
"""Data without any known field."""


def json_payload(data: Any) -> dict[str, Any]:
    return {"type": "json", "data": data}


def job_event(name: str, key: str | None, node: str, job_type: str | None, **data: Any) -> str:
    """A job event. Without a type, like a redirect."""
    return event_text(["job", name, node, *([] if job_type is None else [job_type])], key, json_payload(data))


def set_event(name: str, key: str | None, node: str, **data: Any) -> str:
    return event_text(["jobset", name, node], key, json_payload(data))


def order_event(name: str, key: str | None, **data: Any) -> str:
    return event_text(["scheduler", "OrderEvent", name], key, json_payload(data) if data else None)


def push_event(name: str, key: str | None, **data: Any) -> str:
    return event_text(["push", name], key, json_payload(data) if data else None)


# The strategies.

_gaps = st.one_of(
    st.sampled_from((0, 1, 250_000, SECOND_US, 90 * SECOND_US, HOUR_US, DAY_US, 5 * DAY_US // 2)),
    st.integers(0, 10 * SECOND_US),
    st.integers(0, 3 * HOUR_US),
)
_times = st.builds(
    lambda day, us: START_US + day * DAY_US + us,
    st.integers(0, 4),
    st.one_of(
        st.sampled_from((0, HOUR_US - 1, HOUR_US, DAY_US - 90 * SECOND_US, DAY_US - SECOND_US, DAY_US - 2, DAY_US - 1)),
        st.integers(0, DAY_US - 1),
    ),
)
_copies = st.sampled_from((1, 1, 1, 1, 1, 1, 0, 2))
_nodes = st.sampled_from(("n1", "n2", "n1", "n2", *NODES))
_job_types = st.sampled_from(("build", "test", "build", *JOB_TYPES))
_texts = st.sampled_from(ODD_TEXTS) | st.text(st.characters(codec="utf-8"), max_size=5)
_successes = st.sampled_from(("0", "1", "0", "1", "1", "1", 0, 1, True, "2", "", "true", None, ["1"]))
_jobsets: st.SearchStrategy[Any] = st.sampled_from((0, 1, 2, 7_000_000_000, 1, 2, -1, 1.5, "1", True, None, [1], {}))
_logs: st.SearchStrategy[Any] = st.sampled_from(
    ({"message": "m"}, {}, {"message": ',"payload":', "level": 2}, None, "m", [], 1)
)
_statuses = st.sampled_from(("success", "success", "success", "failure", "down", "crashed", "complete", ""))


def _missing(fields: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of these fields missing."""
    return st.fixed_dictionaries({}, optional={"extra": _texts, **fields})


@st.composite
def _lifecycle(draw: Draw[Any], texts: Sequence[str], late: Sequence[str] = ()) -> list[TimedEvent]:
    """Events in sequence, some of them missing or duplicated, perhaps with others after the end."""
    time_us, lifecycle = draw(_times), []
    after = list(late) if draw(st.integers(0, 5)) == 0 else []
    for text in (*texts, *after):
        for _ in range(draw(_copies)):
            time_us += draw(_gaps)
            lifecycle.append((time_us, text))
    return lifecycle


@st.composite
def _job_texts(draw: Draw[Any], jobset: int | None = None) -> list[str]:
    key, node, job_type = draw(st.sampled_from(JOB_KEYS)), draw(_nodes), draw(_job_types)
    jobset_field = {"jobset": draw(_jobsets)} if jobset is None and draw(st.integers(0, 4)) == 0 else {}
    if jobset is not None:
        jobset_field = {"jobset": jobset}
    texts = [job_event("create", key, node, job_type, params={"text": draw(_texts)}, **jobset_field)]
    if draw(st.integers(0, 3)) == 0:
        to = draw(st.one_of(_nodes, st.sampled_from((None, 1, [], ""))))
        texts.append(job_event("redirect", key, node, None, redirect=to, **jobset_field))
        node = to if isinstance(to, str) and to else node
    texts += [
        job_event("progress", key, node, job_type, log=draw(_logs), **jobset_field)
        for _ in range(draw(st.integers(0, 3)))
    ]
    end = draw(st.sampled_from(("finish", "finish", "finish", "clean", "")))
    if end:
        texts.append(
            job_event(
                end, key, node, job_type, **({"success": draw(_successes)} if end == "finish" else {}), **jobset_field
            )
        )
    return texts


@st.composite
def _job_lifecycles(draw: Draw[Any]) -> list[TimedEvent]:
    texts: list[str] = draw(_job_texts())
    lifecycle: list[TimedEvent] = draw(_lifecycle(texts, late=texts[1:2]))
    return lifecycle


@st.composite
def _set_lifecycles(draw: Draw[Any]) -> list[TimedEvent]:
    key, node = draw(st.sampled_from(SET_KEYS)), draw(_nodes)
    number = int(key.removeprefix("/jobset/"))
    planned = draw(st.sampled_from(([], [{"node": "n1", "type": "build"}], [{}, {}, {}], None, "2", {"length": 4})))
    members: list[str] = []
    for _ in range(draw(st.integers(0, 3))):
        members += draw(_job_texts(number))
    end = draw(st.sampled_from(("finishJobSet", "cleanJobSet", "progressJobSet")))
    texts = [set_event("createJobSet", key, node, jobs=planned), *members, set_event(end, key, draw(_nodes), jobs=[])]
    lifecycle: list[TimedEvent] = draw(_lifecycle(texts, late=[set_event("cleanJobSet", key, node)]))
    return lifecycle


_transitions = st.sampled_from(
    ({"TYPE": "Success"}, {"TYPE": "Success"}, {"TYPE": "Error", "returnCode": 1}, {"TYPE": "Keep"}, {}, None, "Error")
)


@st.composite
def _order_lifecycles(draw: Draw[Any]) -> list[TimedEvent]:
    """An order with one or several runs, with or without being added again."""
    key, texts = draw(st.sampled_from(ORDER_KEYS)), []
    for turn in range(draw(st.integers(1, 3))):
        if turn == 0 or draw(st.booleans()):
            texts.append(order_event("OrderAdded", key, nodeId="100"))
        texts.append(order_event("OrderStarted", key))
        for step in range(draw(st.integers(0, 3))):
            node = draw(st.sampled_from(("100", "200", "ä", "")))
            texts.append(order_event("OrderStepStarted", key, nodeId=node, taskId=str(step)))
            texts.append(order_event("OrderStepEnded", key, nodeTransition=draw(_transitions)))
            if draw(st.integers(0, 3)) == 0:
                texts.append(order_event("OrderSetBack", key, nodeId=node))
        texts += [order_event("OrderSuspended", key)] if draw(st.integers(0, 4)) == 0 else []
        texts.append(order_event("OrderFinished", key, nodeId=draw(st.sampled_from(("end", "error", "ä")))))
    lifecycle: list[TimedEvent] = draw(
        _lifecycle(texts, late=[order_event("OrderRemoved", key), order_event("OrderStarted", key)])
    )
    return lifecycle


@st.composite
def _push_lifecycles(draw: Draw[Any]) -> list[TimedEvent]:
    key = draw(st.sampled_from(PUSH_KEYS))
    nodes = draw(st.lists(_nodes, min_size=1, max_size=3))
    start = draw(_missing({"command": st.sampled_from(("ls", "ä")), "node_count": st.just(3), "quorum": st.just(2)}))
    texts = [push_event("start", key, **start)]
    texts += [push_event("quorum_vote", key, node=node, status=draw(_statuses)) for node in nodes]
    texts += [push_event("quorum_succeeded", key)] + [push_event("run_start", key, node=node) for node in nodes]
    texts += [push_event("run_complete", key, node=node, status=draw(_statuses)) for node in reversed(nodes)]
    texts += [push_event("rehab", key, node=nodes[0])] if draw(st.booleans()) else []
    result = draw(st.sampled_from(("complete", "complete", "timed_out", "quorum_failed", "aborted")))
    texts.append(push_event("job_complete", key, status=result))
    lifecycle: list[TimedEvent] = draw(
        _lifecycle(texts, late=[push_event("job_complete", key, status="crashed"), texts[1]])
    )
    return lifecycle


_fields = _missing(
    {
        "success": _successes,
        "jobset": _jobsets,
        "redirect": st.one_of(_nodes, st.none(), st.just(3)),
        "log": _logs,
        "jobs": st.sampled_from(([], [1, 2], None, {}, "jobs")),
        "nodeId": st.one_of(_nodes, st.none()),
        "taskId": st.sampled_from(("1", "2", None)),
        "nodeTransition": _transitions,
        "node": st.one_of(_nodes, st.none(), st.just(5), st.just("")),
        "status": st.one_of(_statuses, st.none()),
        "command": st.sampled_from(("ls", None, "ä")),
        "node_count": st.sampled_from((0, 3, None)),
        "quorum": st.sampled_from((0, 2, None)),
    }
)
_payloads = st.one_of(
    st.sampled_from((None, BINARY, *map(json_payload, NO_DATA))), _fields.map(json_payload), _fields.map(json_payload)
)
_types = st.one_of(
    st.builds(
        lambda name, node, job_type: ("job", name, node, job_type),
        st.sampled_from(("create", "progress", "finish", "clean")),
        _nodes,
        _job_types,
    ),
    _nodes.map(lambda node: ("job", "redirect", node)),
    st.builds(
        lambda name, node: ("jobset", name, node),
        st.sampled_from(("createJobSet", "progressJobSet", "finishJobSet", "cleanJobSet")),
        _nodes,
    ),
    st.sampled_from(ORDER_EVENTS).map(lambda name: ("scheduler", "OrderEvent", name)),
    st.sampled_from(PUSH_EVENTS).map(lambda name: ("push", name)),
    st.sampled_from(NO_TYPES),
)
_sources = st.sampled_from((None, None, "2016-11-04T11:07:36.606001Z", "2030-01-01T00:00:00.000000Z"))


@st.composite
def _noise(draw: Draw[Any]) -> list[TimedEvent]:
    """Any type with any payload, mostly with a fitting key."""
    event_type: tuple[str, ...] = draw(_types)
    keys = {"job": JOB_KEYS, "jobset": SET_KEYS, "scheduler": ORDER_KEYS, "push": PUSH_KEYS}
    fitting = keys.get(event_type[0] if event_type else "", NO_KEYS)
    key = draw(st.one_of(st.sampled_from(fitting), st.sampled_from(fitting), st.sampled_from(NO_KEYS)))
    return [(draw(_times), event_text(event_type, key, draw(_payloads), draw(_sources)))]


_lifecycles = st.one_of(
    _job_lifecycles(), _set_lifecycles(), _order_lifecycles(), _push_lifecycles(), _noise(), _noise()
)


@st.composite
def histories(draw: Draw[Any], max_lifecycles: int = 10) -> History:
    """Histories of up to five logs with interleaved lifecycles. Some events share a commit."""
    events: dict[int, list[TimedEvent]] = {}
    for lifecycle in draw(st.lists(_lifecycles, max_size=max_lifecycles)):
        events.setdefault(draw(st.sampled_from(SERVERS)), []).extend(lifecycle)
    together_us = draw(st.sampled_from((0, 0, SECOND_US, HOUR_US)))
    plain = draw(st.integers(0, 3))
    return tuple(
        replace(commit, deflated=commit.session % 3 >= plain)
        for server, texts in sorted(events.items())
        for commit in commits_in_order(server, _group_by_time(texts, together_us))
    )


def _group_by_time(events: Iterable[TimedEvent], within_us: int) -> list[tuple[int, list[str]]]:
    """Events in order of time, grouped by the same time or time span."""
    in_order = sorted(events, key=lambda event: event[0])
    groups = groupby(in_order, key=lambda event: event[0] // max(within_us, 1))
    return [(group[0][0], [text for _, text in group]) for group in (list(group) for _, group in groups)]


def split(history: History, chance: random.Random) -> tuple[Export, ...]:
    """The commits in overlapping and repeated exports, full and incremental, in random order."""
    count = chance.randint(1, 4)
    held: list[list[Commit]] = [[] for _ in range(count)]
    for commit in history:
        for workspace in {chance.randrange(count), chance.randrange(count)}:
            held[workspace].append(commit)
    if chance.random() < 0.3:
        held.append(held[0])
    exports = [_export(workspace, commits, chance) for workspace, commits in enumerate(held)]
    removed = [commit for commit in history if chance.random() < 0.1]
    return tuple(_with_deletions(export, removed) for export in exports)


def split_histories(max_lifecycles: int = 10) -> st.SearchStrategy[tuple[History, tuple[Export, ...]]]:
    """Histories with exports of them."""
    chances = st.randoms(use_true_random=False)
    return st.tuples(histories(max_lifecycles), chances).map(lambda both: (both[0], split(*both)))


def _export(workspace: int, commits: list[Commit], chance: random.Random) -> Export:
    kind = chance.choice((FULL, INCREMENTAL))
    lines = tuple(sorted(commits, key=lambda commit: -commit.session) if chance.random() < 0.5 else commits)
    # Ids decrease, so that exports are not read in their order.
    return Export(f"{99 - workspace:014d}-{workspace:08x}", kind, lines, files=chance.randint(1, 2))


def _with_deletions(export: Export, removed: Sequence[Commit]) -> Export:
    """The export with deletions of other commits."""
    if export.kind == FULL:
        return export
    held = set(export.commits)
    return replace(export, deleted=tuple((one.server, one.session) for one in removed if one not in held))


# A plausible month.

_SECONDS: Final = {"build": 180.0, "test": 420.0, "deploy": 150.0, "backup": 5400.0, "probe": 8.0, "import": 120.0}
_WORKERS: Final = ("worker-1", "worker-2", "worker-3", "db-1")
_CHAINS: Final = {
    "/shop/checkout": ("100", "200", "300"),
    "/data/load": ("fetch", "clean", "load"),
    "/night": ("only",),
}
_PUSH_NODES: Final = tuple(f"web-{n:02d}" for n in range(1, 9))
_COMMANDS: Final = {"chef-client": 90.0, "restart-app": 12.0, "update-packages": 240.0}


def month_history(seed: int, jobs: int = 300, orders: int = 120, pushes: int = 60, days: int = 5) -> History:
    """A plausible history of two organizations over some days, and some internal events."""
    chance = random.Random(seed)
    tellers: list[tuple[int, Callable[[random.Random, int, int], list[TimedEvent]]]] = [
        (jobs, _job),
        (max(jobs // 20, 1), _set),
        (orders, _order),
        (pushes, _push),
    ]
    events: dict[int, list[TimedEvent]] = {}
    for many, tell in tellers:
        for number in range(1, many + 1):
            begin = START_US + int(chance.random() * days * DAY_US) // 1000 * 1000
            events.setdefault(chance.choice((1, 1, 1, 2, 2, 0)), []).extend(tell(chance, number, begin))
    return tuple(
        commit
        for server, texts in sorted(events.items())
        for commit in commits_in_order(server, _group_by_time(texts, 2 * SECOND_US), deflated=server == 2)
    )


def _random_us(chance: random.Random, median_s: float, spread: float = 0.6) -> int:
    return int(median_s * 1000 * math.exp(chance.gauss(0.0, spread))) * 1000


def _job(chance: random.Random, number: int, at: int, jobset: int | None = None) -> list[TimedEvent]:
    key, job_type, node = f"/job/{number}", chance.choice(list(_SECONDS)), chance.choice(_WORKERS)
    jobset_field = {} if jobset is None else {"jobset": jobset}
    lifecycle = [(at, job_event("create", key, node, job_type, props={"author": "anna"}, **jobset_field))]
    if chance.random() < 0.05:
        to = chance.choice(_WORKERS)
        at += _random_us(chance, 5)
        lifecycle.append((at, job_event("redirect", key, node, None, redirect=to, **jobset_field)))
        node = to
    takes, bursts = _random_us(chance, _SECONDS[job_type]), chance.randint(1, 4)
    at += _random_us(chance, 6)
    for burst in range(bursts):
        says: dict[str, Any] = {"log": {"message": f"step {burst}", "level": 0}} if burst else {"state": "running"}
        lifecycle.append((at, job_event("progress", key, node, job_type, **says, **jobset_field)))
        at += takes // bursts
    fate = chance.random()
    if fate < 0.02:
        return lifecycle
    if fate < 0.05:
        return [*lifecycle, (at + HOUR_US, job_event("clean", key, node, job_type, **jobset_field))]
    success = "0" if fate < 0.15 else "1"
    return [*lifecycle, (at, job_event("finish", key, node, job_type, success=success, message="done", **jobset_field))]


def _set(chance: random.Random, number: int, at: int) -> list[TimedEvent]:
    key, count = f"/jobset/{number}", chance.randint(2, 5)
    lifecycle = [
        (at, set_event("createJobSet", key, "scheduler-1", jobs=[{"node": "worker-1", "type": "build"}] * count))
    ]
    for workspace in range(count):
        lifecycle += _job(chance, 100_000 + 10 * number + workspace, at + workspace * 3 * SECOND_US, number)
    last = max(time_us for time_us, _ in lifecycle)
    end = ("cleanJobSet", last + HOUR_US) if chance.random() < 0.15 else ("finishJobSet", last)
    return [*lifecycle, (end[1], set_event(end[0], key, "scheduler-1", jobs=[]))]


def _order(chance: random.Random, number: int, at: int) -> list[TimedEvent]:
    chain = chance.choice(list(_CHAINS))
    # A nightly order repeats under the same name.
    key = f"{chain},{number % 3 if chain == '/night' else number}"
    nodes, last, lifecycle = _CHAINS[chain], "end", [(at, order_event("OrderAdded", key, nodeId=_CHAINS[chain][0]))]
    at += _random_us(chance, 2)
    lifecycle.append((at, order_event("OrderStarted", key, nodeId=nodes[0])))
    for workspace, node in enumerate(nodes):
        at += _random_us(chance, 1)
        lifecycle.append((at, order_event("OrderStepStarted", key, nodeId=node, taskId=str(10 * number + workspace))))
        at += _random_us(chance, 40)
        fate = chance.random()
        transition = (
            {"TYPE": "Error", "returnCode": 1} if fate < 0.04 else {"TYPE": "Keep" if fate < 0.1 else "Success"}
        )
        lifecycle.append((at, order_event("OrderStepEnded", key, nodeTransition=transition)))
        if transition["TYPE"] == "Keep":
            lifecycle.append((at, order_event("OrderSetBack", key, nodeId=node)))
        if transition["TYPE"] == "Error":
            last = "error"
            break
        if fate > 0.98:
            lifecycle.append((at, order_event("OrderSuspended", key)))
            at += _random_us(chance, 1800)
            lifecycle.append((at, order_event("OrderResumed", key)))
    return [*lifecycle, (at + 50_000, order_event("OrderFinished", key, nodeId=last))]


def _push(chance: random.Random, number: int, at: int) -> list[TimedEvent]:
    key, command = f"/push/{number:032x}", chance.choice(list(_COMMANDS))
    nodes = chance.sample(_PUSH_NODES, chance.randint(3, 6))
    quorum = math.ceil(0.75 * len(nodes))
    lifecycle = [(at, push_event("start", key, command=command, run_timeout=900, quorum=quorum, node_count=len(nodes)))]
    votes = {node: chance.choices(("success", "failure", "down"), (90, 5, 5))[0] for node in nodes}
    lifecycle += [
        (at + _random_us(chance, 2), push_event("quorum_vote", key, node=node, status=votes[node])) for node in nodes
    ]
    at = max(time_us for time_us, _ in lifecycle) + 10_000
    lifecycle += [(at, push_event("rehab", key, node=node)) for node in nodes if votes[node] == "down"]
    ready = [node for node in nodes if votes[node] == "success"]
    if len(ready) < quorum:
        return [*lifecycle, (at, push_event("job_complete", key, status="quorum_failed"))]
    lifecycle.append((at, push_event("quorum_succeeded", key)))
    hangs = chance.choice(ready) if chance.random() < 0.05 else None
    for node in ready:
        begin = at + _random_us(chance, 0.5)
        lifecycle.append((begin, push_event("run_start", key, node=node)))
        if node != hangs:
            status = chance.choices(("success", "failure", "crashed"), (90, 7, 3))[0]
            end = begin + _random_us(chance, _COMMANDS[command])
            lifecycle.append((end, push_event("run_complete", key, node=node, status=status)))
    end = max(time_us for time_us, _ in lifecycle) + 10_000
    result = "complete" if hangs is None else "timed_out"
    return [
        *lifecycle,
        (end if hangs is None else end + 900 * SECOND_US, push_event("job_complete", key, status=result)),
    ]
