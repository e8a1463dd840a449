"""Strategies for events, selections and queries. They use few names, so that queries often match events."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.queries.event_filter import AnySelection, EitherSelection, ObjectSelection, Selection
from chalicelib.domain.vocabularies import JOB_VOCABULARY, SCHEDULER_VOCABULARY
from tests.conformance.anyjob import anyjob
from tests.exactness import tally

ORDERS = ["/chain,1", "/chain,2", "/a/chain,1", "/a/b,x:y"]
CHAINS = ["/chain", "/a/chain"]
JOBS = ["/job", "/a/job", "/a/job/12"]
TASKS = [("/job", "7"), ("/job", "8"), ("/a/job", "12"), ("/a/job/12", "3")]
FILES = ["Job:/job", "JobChain:/a/chain", "Order:/chain,1", "Lock:/a/lock:1", "Folder:/a"]
NODES = ["100", "200"]
KEYS = ["/job", "/a/chain,1", "/job:7", "/job:7:8", "Job:/job", "/a:b", "x:y", "k", "/scheduler"]

SOURCES_US = [-5, 0, 1_600_000_000_000_000, 1_600_000_000_000_001, 1_900_000_000_000_000]
"""Source timestamps, which are independent of the log's clock."""

_ORDER_EVENTS: Sequence[Mapping[str, Any]] = [
    {"TYPE": "OrderAdded", "nodeId": "100"},
    {"TYPE": "OrderRemoved"},
    {"TYPE": "OrderStarted"},
    {"TYPE": "OrderStarted", "nodeId": "200", "taskId": "7"},
    {"TYPE": "OrderFinished", "nodeId": "200"},
    {"TYPE": "OrderStepStarted", "nodeId": "100", "taskId": "8"},
    {"TYPE": "OrderStepEnded", "nodeTransition": {"TYPE": "Error", "returnCode": 1}},
    {"TYPE": "OrderSuspended"},
    {"TYPE": "OrderResumed"},
]
_CHAIN_EVENTS: Sequence[Mapping[str, Any]] = [
    {"TYPE": "JobChainStateChanged", "state": "running"},
    {"TYPE": "JobChainNodeActionChanged", "nodeId": "100", "action": "stop"},
    {"TYPE": "JobChainNodeActionChanged", "nodeId": "5", "action": "process"},
]
_JOB_EVENTS: Sequence[Mapping[str, Any]] = [{"TYPE": "JobStateChanged", "state": "stopped"}, {"TYPE": "JobUnstopped"}]
_TASK_EVENTS: Sequence[Mapping[str, Any]] = [
    {"TYPE": "TaskStarted"},
    {"TYPE": "TaskEnded", "returnCode": 3},
    {"TYPE": "TaskClosed"},
]
_FILE_EVENTS = [{"TYPE": f"FileBased{name}"} for name in ("Added", "Replaced", "Removed", "Activated")]
_OTHER_EVENTS: Sequence[Mapping[str, Any]] = [
    {"TYPE": "SchedulerStateChanged", "state": "running"},
    {"TYPE": "SchedulerClosed"},
    {"TYPE": "VariablesCustomEvent", "key": "k", "variables": {"a": "b"}},
    {"TYPE": "Logged", "level": "info", "message": "hello"},
]


def _keyed(events: Sequence[Mapping[str, Any]], keys: Sequence[Any]) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.builds(lambda event, key: {**event, "key": key}, st.sampled_from(events), st.sampled_from(keys))


_native_json: st.SearchStrategy[Mapping[str, Any]] = st.one_of(
    _keyed(_ORDER_EVENTS, ORDERS),
    _keyed(_CHAIN_EVENTS, CHAINS),
    _keyed(_JOB_EVENTS, JOBS),
    _keyed(_TASK_EVENTS, [{"jobPath": job, "taskId": task} for job, task in TASKS]),
    _keyed(_FILE_EVENTS, FILES),
    st.sampled_from(_OTHER_EVENTS),
)
scheduler_events = st.builds(SCHEDULER_VOCABULARY.new_event, _native_json)

_all_keys = [*ORDERS, *CHAINS, *JOBS, *FILES, *KEYS]
_source_timestamps = st.none() | st.sampled_from(SOURCES_US).map(
    lambda us: {"s": us // 1_000_000, "us": us % 1_000_000}
)


def _core_event(event_type: EventType, key: str | None, source: object, payload: object) -> NewEvent:
    return NewEvent.model_validate({"type": event_type, "key": key, "sourceTimestamp": source, "payload": payload})


core_events = st.builds(
    _core_event,
    st.sampled_from([(), ("a",), ("a", "b"), ("a", "c", "d"), ("b", "b"), ("b", "c"), ("rare",)]),
    st.none() | st.sampled_from(_all_keys),
    _source_timestamps,
    st.just(None) | st.just({"type": "json", "data": [1, "ß"]}),
)

_families = ["OrderEvent", "JobChainEvent", "JobEvent", "TaskEvent", "FileBasedEvent", "SchedulerEvent", "UnknownEvent"]
_names = ["OrderStepStarted", "JobChainNodeActionChanged", "TaskEnded", "FileBasedAdded", "FileBasedRemoved", "Nothing"]
_malformed_data: Sequence[object] = [
    None,
    "nodeId",
    ["nodeId"],
    {"nodeId": 5, "action": "of a number"},
    {"nodeId": None, "action": [], "taskId": {"a": 1.0}},
    {"nodeId": {}, "action": 1, "returnCode": "text"},
]
_malformed_payloads: Sequence[object] = [
    None,
    {"type": "binary", "name": "nodeId", "data": "AAAA"},
    *({"type": "json", "data": data} for data in _malformed_data),
]
malformed_events = st.builds(
    _core_event,
    st.one_of(
        st.just(("scheduler",)),
        st.tuples(st.just("scheduler"), st.sampled_from(_families)),
        st.tuples(st.just("scheduler"), st.sampled_from(_families), st.sampled_from(_names)),
        st.tuples(st.just("scheduler"), st.sampled_from(_families), st.just("x"), st.sampled_from(_names)),
    ),
    st.none() | st.sampled_from(_all_keys),
    _source_timestamps,
    st.sampled_from(_malformed_payloads),
)

_job_events = [
    anyjob.create,
    lambda number, **more: anyjob.progress(number, state="run", **more),
    anyjob.finish,
    lambda number, **more: anyjob.job_event("clean", number, **more),
]
NEW_JOB = JOB_VOCABULARY.new_event({"event": "create", "node": "n1", "type": "backup"})
"""A job without an id."""
job_events = st.builds(
    lambda event, number, name: JOB_VOCABULARY.new_event(event(number, type=name)),
    st.sampled_from(_job_events),
    st.sampled_from([1, 2, 30]),
    st.sampled_from(["backup", "a"]),
)

tally_events = st.sampled_from(["/job", "/a/chain,1", "/a/b"]).map(tally.new_event)

TAGS = ["t:1", "t:2", "/job", "x:y"]


def _tagged(event: NewEvent, tags: tuple[str, ...]) -> NewEvent:
    return event.model_copy(update={"tags": tags})


tagged_events = st.builds(
    _tagged,
    st.one_of(scheduler_events, core_events),
    st.lists(st.sampled_from(TAGS), min_size=1, max_size=3, unique=True).map(tuple),
)

commit_events = st.lists(
    st.one_of(scheduler_events, core_events, malformed_events, tally_events, tagged_events, job_events),
    min_size=1,
    max_size=5,
)

_patterns = st.sampled_from(
    [
        (),
        ("*",),
        ("?",),
        ("?", "?"),
        ("?", "?", "*"),
        ("a", "*"),
        ("a", "b"),
        ("a", "?", "d"),
        ("?", "b"),
        ("b", "?"),
        ("rare",),
        ("rare", "*"),
        ("nothing", "*"),
        ("scheduler", "*"),
        ("scheduler", "OrderEvent", "*"),
        ("scheduler", "?", "OrderStepStarted"),
        ("scheduler", "FileBasedEvent", "FileBasedRemoved"),
        ("scheduler", "SchedulerEvent", "*"),
        ("scheduler", "?", "?", "?"),
    ]
)
type_patterns = st.none() | st.lists(_patterns, max_size=3).map(tuple)

collections = st.sampled_from([*vocabularies.collections(), tally.NAME])
paths = st.sampled_from(
    [
        *("/", "/*", "/a/", "/a/*", "/a/b/", "/a", "/nowhere"),
        *(
            *ORDERS,
            *CHAINS,
            *JOBS,
            "/job:7",
            "/job:7:8",
            "/a/job/12:3",
            "/a/lock",
            "/a/lock:1",
            "/a/lock:1:Lock",
            "/job:Job",
        ),
        "/scheduler",
        "/backup",
        "/30",
    ]
)
path_queries = st.lists(paths, min_size=1, max_size=3).map(lambda texts: PathQuery.parse(*texts))
event_keys = st.none() | st.lists(st.sampled_from([*_all_keys, "none"]), max_size=2).map(tuple)
event_tags = st.none() | st.lists(st.sampled_from([*TAGS, "none"]), min_size=1, max_size=2, unique=True).map(tuple)
items = st.builds(Selection, types=type_patterns, keys=event_keys, tags=event_tags)
item_queries = items | st.lists(items, min_size=2, max_size=3).map(lambda items: AnySelection(items=tuple(items)))
_far_positions = st.sampled_from([0, 0, 1_700_000_000_000_000])
selections = st.one_of(
    item_queries,
    st.builds(
        EitherSelection,
        first=items,
        first_after=_far_positions,
        second=item_queries,
        second_after=_far_positions,
    ),
    st.builds(ObjectSelection, types=type_patterns, collection=collections, query=path_queries),
)
