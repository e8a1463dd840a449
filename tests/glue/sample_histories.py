"""Made-up histories: the odd ones that hypothesis finds, and a plausible one of a few days.

A history is what several logs hold, as commits. It is told in stories: one is all that is said about a job, a set, an
order or a push job, with something missing, said twice or said too late; and there is noise that nobody should count.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from tests.glue.export_writer import FULL, INCREMENTAL, Commit, Export, event_text, in_line

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]
History = tuple[Commit, ...]
Told = tuple[int, str]
"""When it was told, and the text of the event."""

START_US: Final = int(datetime(2024, 2, 27, tzinfo=UTC).timestamp()) * 1_000_000
SECOND_US: Final = 1_000_000
HOUR_US: Final = 3600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

SERVERS: Final = (1, 1, 1, 2, 2, 3, 0, -2)
"""Where a story is told; the logs below 1 are the server's own."""

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
"""Keys that name nothing, at least for some of the types that have them."""
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
"""Data in which no field is found."""


def json_of(data: Any) -> dict[str, Any]:
    """A payload."""
    return {"type": "json", "data": data}


def of_job(name: str, key: str | None, node: str, job_type: str | None, **data: Any) -> str:
    """An event of a job; without a type, as a redirect is."""
    return event_text(["job", name, node, *([] if job_type is None else [job_type])], key, json_of(data))


def of_set(name: str, key: str | None, node: str, **data: Any) -> str:
    """An event of a set of jobs."""
    return event_text(["jobset", name, node], key, json_of(data))


def of_order(name: str, key: str | None, **data: Any) -> str:
    """An event of an order."""
    return event_text(["scheduler", "OrderEvent", name], key, json_of(data) if data else None)


def of_push(name: str, key: str | None, **data: Any) -> str:
    """An event of a push job."""
    return event_text(["push", name], key, json_of(data) if data else None)


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
    """An object with these fields, of which some are missing."""
    return st.fixed_dictionaries({}, optional={"extra": _texts, **fields})


@st.composite
def _told(draw: Draw[Any], texts: Sequence[str], late: Sequence[str] = ()) -> list[Told]:
    """Events one after the other, some of them never, some of them twice; perhaps others after the end."""
    time_us, story = draw(_times), []
    after = list(late) if draw(st.integers(0, 5)) == 0 else []
    for text in (*texts, *after):
        for _ in range(draw(_copies)):
            time_us += draw(_gaps)
            story.append((time_us, text))
    return story


@st.composite
def _job_texts(draw: Draw[Any], jobset: int | None = None) -> list[str]:
    key, node, job_type = draw(st.sampled_from(JOB_KEYS)), draw(_nodes), draw(_job_types)
    of_it = {"jobset": draw(_jobsets)} if jobset is None and draw(st.integers(0, 4)) == 0 else {}
    if jobset is not None:
        of_it = {"jobset": jobset}
    texts = [of_job("create", key, node, job_type, params={"text": draw(_texts)}, **of_it)]
    if draw(st.integers(0, 3)) == 0:
        to = draw(st.one_of(_nodes, st.sampled_from((None, 1, [], ""))))
        texts.append(of_job("redirect", key, node, None, redirect=to, **of_it))
        node = to if isinstance(to, str) and to else node
    texts += [of_job("progress", key, node, job_type, log=draw(_logs), **of_it) for _ in range(draw(st.integers(0, 3)))]
    end = draw(st.sampled_from(("finish", "finish", "finish", "clean", "")))
    if end:
        texts.append(
            of_job(end, key, node, job_type, **({"success": draw(_successes)} if end == "finish" else {}), **of_it)
        )
    return texts


@st.composite
def _job_stories(draw: Draw[Any]) -> list[Told]:
    texts: list[str] = draw(_job_texts())
    story: list[Told] = draw(_told(texts, late=texts[1:2]))
    return story


@st.composite
def _set_stories(draw: Draw[Any]) -> list[Told]:
    key, node = draw(st.sampled_from(SET_KEYS)), draw(_nodes)
    number = int(key.removeprefix("/jobset/"))
    planned = draw(st.sampled_from(([], [{"node": "n1", "type": "build"}], [{}, {}, {}], None, "2", {"length": 4})))
    members: list[str] = []
    for _ in range(draw(st.integers(0, 3))):
        members += draw(_job_texts(number))
    end = draw(st.sampled_from(("finishJobSet", "cleanJobSet", "progressJobSet")))
    texts = [of_set("createJobSet", key, node, jobs=planned), *members, of_set(end, key, draw(_nodes), jobs=[])]
    story: list[Told] = draw(_told(texts, late=[of_set("cleanJobSet", key, node)]))
    return story


_transitions = st.sampled_from(
    ({"TYPE": "Success"}, {"TYPE": "Success"}, {"TYPE": "Error", "returnCode": 1}, {"TYPE": "Keep"}, {}, None, "Error")
)


@st.composite
def _order_stories(draw: Draw[Any]) -> list[Told]:
    """An order that goes its way once or several times, added again each time or not."""
    key, texts = draw(st.sampled_from(ORDER_KEYS)), []
    for turn in range(draw(st.integers(1, 3))):
        if turn == 0 or draw(st.booleans()):
            texts.append(of_order("OrderAdded", key, nodeId="100"))
        texts.append(of_order("OrderStarted", key))
        for step in range(draw(st.integers(0, 3))):
            node = draw(st.sampled_from(("100", "200", "ä", "")))
            texts.append(of_order("OrderStepStarted", key, nodeId=node, taskId=str(step)))
            texts.append(of_order("OrderStepEnded", key, nodeTransition=draw(_transitions)))
            if draw(st.integers(0, 3)) == 0:
                texts.append(of_order("OrderSetBack", key, nodeId=node))
        texts += [of_order("OrderSuspended", key)] if draw(st.integers(0, 4)) == 0 else []
        texts.append(of_order("OrderFinished", key, nodeId=draw(st.sampled_from(("end", "error", "ä")))))
    story: list[Told] = draw(_told(texts, late=[of_order("OrderRemoved", key), of_order("OrderStarted", key)]))
    return story


@st.composite
def _push_stories(draw: Draw[Any]) -> list[Told]:
    key = draw(st.sampled_from(PUSH_KEYS))
    nodes = draw(st.lists(_nodes, min_size=1, max_size=3))
    start = draw(_missing({"command": st.sampled_from(("ls", "ä")), "node_count": st.just(3), "quorum": st.just(2)}))
    texts = [of_push("start", key, **start)]
    texts += [of_push("quorum_vote", key, node=node, status=draw(_statuses)) for node in nodes]
    texts += [of_push("quorum_succeeded", key)] + [of_push("run_start", key, node=node) for node in nodes]
    texts += [of_push("run_complete", key, node=node, status=draw(_statuses)) for node in reversed(nodes)]
    texts += [of_push("rehab", key, node=nodes[0])] if draw(st.booleans()) else []
    result = draw(st.sampled_from(("complete", "complete", "timed_out", "quorum_failed", "aborted")))
    texts.append(of_push("job_complete", key, status=result))
    story: list[Told] = draw(_told(texts, late=[of_push("job_complete", key, status="crashed"), texts[1]]))
    return story


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
    st.sampled_from((None, BINARY, *map(json_of, NO_DATA))), _fields.map(json_of), _fields.map(json_of)
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
def _noise(draw: Draw[Any]) -> list[Told]:
    """Any type with any payload; mostly under a key that goes with it, sometimes under one that does not."""
    event_type: tuple[str, ...] = draw(_types)
    keys = {"job": JOB_KEYS, "jobset": SET_KEYS, "scheduler": ORDER_KEYS, "push": PUSH_KEYS}
    fitting = keys.get(event_type[0] if event_type else "", NO_KEYS)
    key = draw(st.one_of(st.sampled_from(fitting), st.sampled_from(fitting), st.sampled_from(NO_KEYS)))
    return [(draw(_times), event_text(event_type, key, draw(_payloads), draw(_sources)))]


_stories = st.one_of(_job_stories(), _set_stories(), _order_stories(), _push_stories(), _noise(), _noise())


@st.composite
def histories(draw: Draw[Any], most_stories: int = 10) -> History:
    """What up to five logs hold: stories that go on beside each other, some events together in a commit."""
    told: dict[int, list[Told]] = {}
    for story in draw(st.lists(_stories, max_size=most_stories)):
        told.setdefault(draw(st.sampled_from(SERVERS)), []).extend(story)
    together_us = draw(st.sampled_from((0, 0, SECOND_US, HOUR_US)))
    plain = draw(st.integers(0, 3))
    return tuple(
        replace(commit, deflated=commit.session % 3 >= plain)
        for server, texts in sorted(told.items())
        for commit in in_line(server, _together(texts, together_us))
    )


def _together(told: Iterable[Told], within_us: int) -> list[tuple[int, list[str]]]:
    """Events in the order of time; those of the same time, or the same span of time, are told at once."""
    in_order = sorted(told, key=lambda one: one[0])
    groups = groupby(in_order, key=lambda one: one[0] // max(within_us, 1))
    return [(group[0][0], [text for _, text in group]) for group in (list(each) for _, each in groups)]


def split(history: History, chance: random.Random) -> tuple[Export, ...]:
    """The commits in exports that overlap and repeat each other, full and incremental, in no order."""
    count = chance.randint(1, 4)
    held: list[list[Commit]] = [[] for _ in range(count)]
    for commit in history:
        for place in {chance.randrange(count), chance.randrange(count)}:
            held[place].append(commit)
    if chance.random() < 0.3:
        held.append(held[0])
    exports = [_export(place, commits, chance) for place, commits in enumerate(held)]
    removed = [commit for commit in history if chance.random() < 0.1]
    return tuple(_with_deletions(export, removed) for export in exports)


def split_histories(most_stories: int = 10) -> st.SearchStrategy[tuple[History, tuple[Export, ...]]]:
    """Histories, each with exports that hold it."""
    chances = st.randoms(use_true_random=False)
    return st.tuples(histories(most_stories), chances).map(lambda both: (both[0], split(*both)))


def _export(place: int, commits: list[Commit], chance: random.Random) -> Export:
    kind = chance.choice((FULL, INCREMENTAL))
    lines = tuple(sorted(commits, key=lambda commit: -commit.session) if chance.random() < 0.5 else commits)
    # Ids go down while places go up: what came first need not be read first.
    return Export(f"{99 - place:014d}-{place:08x}", kind, lines, files=chance.randint(1, 2))


def _with_deletions(export: Export, removed: Sequence[Commit]) -> Export:
    """The export, which also tells that commits of others were removed from the log."""
    if export.kind == FULL:
        return export
    held = set(export.commits)
    return replace(export, deleted=tuple((one.server, one.session) for one in removed if one not in held))


# The plausible days.

_SECONDS: Final = {"build": 180.0, "test": 420.0, "deploy": 150.0, "backup": 5400.0, "probe": 8.0, "import": 120.0}
_WORKERS: Final = ("worker-1", "worker-2", "worker-3", "db-1")
_CHAINS: Final = {
    "/shop/checkout": ("100", "200", "300"),
    "/data/load": ("fetch", "clean", "load"),
    "/night": ("only",),
}
_PUSH_NODES: Final = tuple(f"web-{n:02d}" for n in range(1, 9))
_COMMANDS: Final = {"chef-client": 90.0, "restart-app": 12.0, "update-packages": 240.0}


def a_month(seed: int, jobs: int = 300, orders: int = 120, pushes: int = 60, days: int = 5) -> History:
    """What two organizations did in some days, and a little of the server's own: as it is, nothing is odd about it."""
    chance = random.Random(seed)
    tellers: list[tuple[int, Callable[[random.Random, int, int], list[Told]]]] = [
        (jobs, _a_job),
        (max(jobs // 20, 1), _a_set),
        (orders, _an_order),
        (pushes, _a_push),
    ]
    told: dict[int, list[Told]] = {}
    for many, tell in tellers:
        for number in range(1, many + 1):
            begin = START_US + int(chance.random() * days * DAY_US) // 1000 * 1000
            told.setdefault(chance.choice((1, 1, 1, 2, 2, 0)), []).extend(tell(chance, number, begin))
    return tuple(
        commit
        for server, texts in sorted(told.items())
        for commit in in_line(server, _together(texts, 2 * SECOND_US), deflated=server == 2)
    )


def _some_us(chance: random.Random, median_s: float, spread: float = 0.6) -> int:
    return int(median_s * 1000 * math.exp(chance.gauss(0.0, spread))) * 1000


def _a_job(chance: random.Random, number: int, at: int, jobset: int | None = None) -> list[Told]:
    key, job_type, node = f"/job/{number}", chance.choice(list(_SECONDS)), chance.choice(_WORKERS)
    of_it = {} if jobset is None else {"jobset": jobset}
    story = [(at, of_job("create", key, node, job_type, props={"author": "anna"}, **of_it))]
    if chance.random() < 0.05:
        to = chance.choice(_WORKERS)
        at += _some_us(chance, 5)
        story.append((at, of_job("redirect", key, node, None, redirect=to, **of_it)))
        node = to
    takes, bursts = _some_us(chance, _SECONDS[job_type]), chance.randint(1, 4)
    at += _some_us(chance, 6)
    for burst in range(bursts):
        says: dict[str, Any] = {"log": {"message": f"step {burst}", "level": 0}} if burst else {"state": "running"}
        story.append((at, of_job("progress", key, node, job_type, **says, **of_it)))
        at += takes // bursts
    fate = chance.random()
    if fate < 0.02:
        return story
    if fate < 0.05:
        return [*story, (at + HOUR_US, of_job("clean", key, node, job_type, **of_it))]
    success = "0" if fate < 0.15 else "1"
    return [*story, (at, of_job("finish", key, node, job_type, success=success, message="done", **of_it))]


def _a_set(chance: random.Random, number: int, at: int) -> list[Told]:
    key, count = f"/jobset/{number}", chance.randint(2, 5)
    story = [(at, of_set("createJobSet", key, "scheduler-1", jobs=[{"node": "worker-1", "type": "build"}] * count))]
    for place in range(count):
        story += _a_job(chance, 100_000 + 10 * number + place, at + place * 3 * SECOND_US, number)
    last = max(time_us for time_us, _ in story)
    end = ("cleanJobSet", last + HOUR_US) if chance.random() < 0.15 else ("finishJobSet", last)
    return [*story, (end[1], of_set(end[0], key, "scheduler-1", jobs=[]))]


def _an_order(chance: random.Random, number: int, at: int) -> list[Told]:
    chain = chance.choice(list(_CHAINS))
    # A nightly order comes again under its own name.
    key = f"{chain},{number % 3 if chain == '/night' else number}"
    nodes, last, story = _CHAINS[chain], "end", [(at, of_order("OrderAdded", key, nodeId=_CHAINS[chain][0]))]
    at += _some_us(chance, 2)
    story.append((at, of_order("OrderStarted", key, nodeId=nodes[0])))
    for place, node in enumerate(nodes):
        at += _some_us(chance, 1)
        story.append((at, of_order("OrderStepStarted", key, nodeId=node, taskId=str(10 * number + place))))
        at += _some_us(chance, 40)
        fate = chance.random()
        transition = (
            {"TYPE": "Error", "returnCode": 1} if fate < 0.04 else {"TYPE": "Keep" if fate < 0.1 else "Success"}
        )
        story.append((at, of_order("OrderStepEnded", key, nodeTransition=transition)))
        if transition["TYPE"] == "Keep":
            story.append((at, of_order("OrderSetBack", key, nodeId=node)))
        if transition["TYPE"] == "Error":
            last = "error"
            break
        if fate > 0.98:
            story.append((at, of_order("OrderSuspended", key)))
            at += _some_us(chance, 1800)
            story.append((at, of_order("OrderResumed", key)))
    return [*story, (at + 50_000, of_order("OrderFinished", key, nodeId=last))]


def _a_push(chance: random.Random, number: int, at: int) -> list[Told]:
    key, command = f"/push/{number:032x}", chance.choice(list(_COMMANDS))
    nodes = chance.sample(_PUSH_NODES, chance.randint(3, 6))
    quorum = math.ceil(0.75 * len(nodes))
    story = [(at, of_push("start", key, command=command, run_timeout=900, quorum=quorum, node_count=len(nodes)))]
    votes = {node: chance.choices(("success", "failure", "down"), (90, 5, 5))[0] for node in nodes}
    story += [(at + _some_us(chance, 2), of_push("quorum_vote", key, node=node, status=votes[node])) for node in nodes]
    at = max(time_us for time_us, _ in story) + 10_000
    story += [(at, of_push("rehab", key, node=node)) for node in nodes if votes[node] == "down"]
    ready = [node for node in nodes if votes[node] == "success"]
    if len(ready) < quorum:
        return [*story, (at, of_push("job_complete", key, status="quorum_failed"))]
    story.append((at, of_push("quorum_succeeded", key)))
    hangs = chance.choice(ready) if chance.random() < 0.05 else None
    for node in ready:
        begin = at + _some_us(chance, 0.5)
        story.append((begin, of_push("run_start", key, node=node)))
        if node != hangs:
            status = chance.choices(("success", "failure", "crashed"), (90, 7, 3))[0]
            end = begin + _some_us(chance, _COMMANDS[command])
            story.append((end, of_push("run_complete", key, node=node, status=status)))
    end = max(time_us for time_us, _ in story) + 10_000
    result = "complete" if hangs is None else "timed_out"
    return [*story, (end if hangs is None else end + 900 * SECOND_US, of_push("job_complete", key, status=result))]
