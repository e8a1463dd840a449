"""Partial aggregates of the events of one history file: jobs, job sets, orders, push jobs and throughput.

They are much smaller than the events. Partials of several files can be combined to the same result as all events
together.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import column, where
from glue_jobs.transforms.payloads import payload_fields

FORMAT: Final = 1
"""Incremented when the partials change, so that they are rebuilt."""

COLUMNS: Final = ("event_id", "at", "type", "key", "payload")
"""Columns of the events that are read."""

FAILURE, SUCCESS, TIMEOUT = range(3)
"""Codes of job results."""

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
_HOUR_US: Final = 3_600_000_000
_OF_EVENT: Final = (("event_id", _LONG), ("at_us", _LONG), ("name", _TEXT))

SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "jobs": pa.schema(
        [
            ("job", _LONG),
            ("node", _TEXT),
            ("type", _TEXT),
            ("jobset", _LONG),
            ("first_us", _LONG),
            ("first_id", _LONG),
            ("last_id", _LONG),
            ("of_set_us", _LONG),
            ("started_us", _LONG),
            ("progressed_us", _LONG),
            ("ended_us", _LONG),
            ("ended_id", _LONG),
            ("code", _INT),
            ("redirects", _LONG),
            ("progresses", _LONG),
            ("logs", _LONG),
            ("events", _LONG),
        ]
    ),
    "jobsets": pa.schema([*_OF_EVENT, ("jobset", _LONG), ("node", _TEXT), ("planned", _INT)]),
    "orders": pa.schema(
        [*_OF_EVENT, ("chain", _TEXT), ("order", _TEXT), ("node", _TEXT), ("task", _TEXT), ("transition", _TEXT)]
    ),
    "pushes": pa.schema(
        [
            *_OF_EVENT,
            ("job", _TEXT),
            ("command", _TEXT),
            ("node_count", _LONG),
            ("quorum", _LONG),
            ("node", _TEXT),
            ("status", _TEXT),
        ]
    ),
    "throughput": pa.schema([("hour_us", _LONG), ("type", _TEXT), ("events", _LONG)]),
}
"""Columns of each kind of partial. Server and day are in the path."""

_ORDER_EVENTS: Final = (
    "OrderAdded",
    "OrderRemoved",
    "OrderStarted",
    "OrderFinished",
    "OrderNestedStarted",
    "OrderNestedFinished",
    "OrderStepStarted",
    "OrderStepEnded",
    "OrderSetBack",
    "OrderNodeChanged",
    "OrderSuspended",
    "OrderResumed",
    "OrderWaitingInTask",
)
_PUSH_EVENTS: Final = (
    "start",
    "quorum_vote",
    "quorum_succeeded",
    "run_start",
    "run_complete",
    "job_complete",
    "rehab",
)
_SET_EVENTS: Final = ("createJobSet", "progressJobSet", "finishJobSet", "cleanJobSet")
_JOB_EVENTS: Final = ("create", "progress", "finish", "clean")


def aggregate_events(events: pa.Table) -> dict[str, pa.Table]:
    """Aggregate events, which must be in log order. Returns a table for each kind."""
    rows = _EventRows.from_table(events.combine_chunks())
    aggregations: Mapping[str, Callable[[_EventRows], pa.Table]] = {
        "jobs": _jobs,
        "jobsets": _jobsets,
        "orders": _orders,
        "pushes": _pushes,
        "throughput": _throughput,
    }
    return {kind: make(rows).select(SCHEMAS[kind].names).cast(SCHEMAS[kind]) for kind, make in aggregations.items()}


class _EventRows:
    """A selection of rows of an event table. Columns are materialized on access, because most are used once."""

    def __init__(self, events: Mapping[str, pa.Array], rows: pa.Array, more: Mapping[str, pa.Array]) -> None:
        self._events = events
        self._rows = rows
        self._more = more
        """Columns of the selected rows only."""

    @classmethod
    def from_table(cls, events: pa.Table) -> "_EventRows":
        """All rows of a history table."""
        columns = {name: column(events, name) for name in COLUMNS}
        columns |= {
            "at_us": columns["at"].cast(_LONG),
            "size": pc.list_value_length(columns["type"]),
            "begin": columns["type"].offsets[:-1],
        }
        return cls(columns, pa.array(np.arange(events.num_rows)), {})

    def __getitem__(self, name: str) -> pa.Array:
        return self._more[name] if name in self._more else self._events[name].take(self._rows)

    def subtype(self, index: int) -> pa.Array:
        """The subtype at an index. Null if the type is shorter."""
        is_there = pc.greater(self["size"], index)
        indices = where(pc.add(self["begin"], pa.scalar(index, _INT)), is_there)
        return self._events["type"].values.take(indices)

    def where(self, condition: pa.Array) -> "_EventRows":
        """The rows that match the condition."""
        more = {name: values.filter(condition) for name, values in self._more.items()}
        return _EventRows(self._events, self._rows.filter(condition), more)

    def where_size(self, size: int) -> "_EventRows":
        """The rows whose type has `size` subtypes."""
        return self.where(pc.equal(self["size"], size))

    def with_subtype(self, index: int, *names: str) -> "_EventRows":
        """The rows whose subtype is one of `names`. It becomes the column `name`."""
        name = self.subtype(index)
        return self._with("name", name).where(pc.is_in(name, pa.array(names)))

    def with_number(self, folder: str) -> "_EventRows":
        """The rows whose key is the folder and a canonical number. It becomes the column `number`."""
        is_number = pc.match_substring_regex(self["key"], f"^{folder}(0|[1-9][0-9]{{0,15}})\\z")
        rows = self.where(pc.fill_null(is_number, False))
        return rows._with("number", pc.utf8_slice_codeunits(rows["key"], len(folder)).cast(_LONG))

    def with_key(self, pattern: str) -> "_EventRows":
        """The rows whose key matches the pattern."""
        return self.where(pc.fill_null(pc.match_substring_regex(self["key"], pattern), False))

    def _with(self, name: str, values: pa.Array) -> "_EventRows":
        return _EventRows(self._events, self._rows, {**self._more, name: values})


def _jobs(events: _EventRows) -> pa.Table:
    job_rows = events.with_subtype(0, "job")
    typed = _job_events(job_rows.where_size(4).with_subtype(1, *_JOB_EVENTS).with_number("/job/"))
    redirects = _job_events(job_rows.where_size(3).with_subtype(1, "redirect").with_number("/job/"))
    table = pa.concat_tables([typed, redirects])
    keys = ["job", "node", "type", "jobset"]
    aggregations = {
        ("at_us", "min"): "first_us",
        ("event_id", "min"): "first_id",
        ("event_id", "max"): "last_id",
        ("of_set_us", "min"): "of_set_us",
        ("started_us", "min"): "started_us",
        ("progressed_us", "min"): "progressed_us",
        ("ended_us", "max"): "ended_us",
        ("ended_id", "max"): "ended_id",
        ("code", "last"): "code",
        ("redirect", "sum"): "redirects",
        ("progress", "sum"): "progresses",
        ("log", "sum"): "logs",
        ("at_us", "count"): "events",
    }
    # Rows are in log order, so the last code is that of the last end event.
    grouped = table.group_by(keys, use_threads=False).aggregate(list(aggregations))
    return grouped.rename_columns({f"{column}_{how}": name for (column, how), name in aggregations.items()})


def _job_events(events: _EventRows) -> pa.Table:
    """Valid job events, with the columns to aggregate."""
    data = payload_fields(
        events["payload"],
        pa.struct(
            [("success", _TEXT), ("jobset", _LONG), ("log", pa.struct([("message", _TEXT)])), ("redirect", _TEXT)]
        ),
    )
    success, jobset, log, redirect = (pc.struct_field(data, name) for name in ("success", "jobset", "log", "redirect"))
    name, at_us = events["name"], events["at_us"]
    is_finish, is_redirect, is_clean = (pc.equal(name, event) for event in ("finish", "redirect", "clean"))
    is_progress = pc.equal(name, "progress")
    is_valid = pc.and_(
        pc.or_(pc.invert(is_finish), pc.is_in(success, pa.array(["0", "1"]))),
        pc.or_(pc.invert(is_redirect), pc.is_valid(redirect)),
    )
    code = pc.case_when(
        pc.make_struct(is_clean, pc.and_(is_finish, pc.equal(success, "1")), is_finish), *map(_code, range(2, -1, -1))
    )
    has_ended = pc.or_(is_clean, is_finish)
    table = pa.table(
        {
            "event_id": events["event_id"],
            "at_us": at_us,
            "job": events["number"],
            "node": pc.if_else(is_redirect, redirect, events.subtype(2)),
            "type": events.subtype(3),
            "jobset": where(jobset, pc.greater_equal(jobset, 0)),
            "of_set_us": where(at_us, pc.is_in(name, pa.array(["create", "finish", "clean"]))),
            "started_us": where(at_us, pc.equal(name, "create")),
            "progressed_us": where(at_us, is_progress),
            "ended_us": where(at_us, has_ended),
            "ended_id": where(events["event_id"], has_ended),
            "code": code,
            "redirect": is_redirect.cast(_LONG),
            "progress": is_progress.cast(_LONG),
            "log": pc.and_(is_progress, pc.is_valid(log)).cast(_LONG),
        }
    )
    return table.filter(is_valid)


def _jobsets(events: _EventRows) -> pa.Table:
    set_rows = events.with_subtype(0, "jobset").where_size(3)
    rows = set_rows.with_subtype(1, *_SET_EVENTS).with_number("/jobset/")
    jobs = pc.struct_field(payload_fields(rows["payload"], pa.struct([("jobs", pa.list_(pa.struct([])))])), "jobs")
    planned = pc.fill_null(pc.list_value_length(jobs), 0)
    return pa.table(
        {
            **_event_columns(rows),
            "jobset": rows["number"],
            "node": rows.subtype(2),
            "planned": where(planned, pc.equal(rows["name"], "createJobSet")),
        }
    )


def _orders(events: _EventRows) -> pa.Table:
    order_rows = events.with_subtype(0, "scheduler").where_size(3).with_subtype(1, "OrderEvent")
    rows = order_rows.with_subtype(2, *_ORDER_EVENTS).with_key(r"(?s)^[^,]{2,},.")
    key_parts = pc.extract_regex(rows["key"], r"(?s)^(?P<chain>[^,]+),(?P<order>.+)$")
    data = payload_fields(
        rows["payload"],
        pa.struct([("nodeId", _TEXT), ("taskId", _TEXT), ("nodeTransition", pa.struct([("TYPE", _TEXT)]))]),
    )
    return pa.table(
        {
            **_event_columns(rows),
            "chain": pc.struct_field(key_parts, "chain"),
            "order": pc.struct_field(key_parts, "order"),
            "node": pc.struct_field(data, "nodeId"),
            "task": pc.struct_field(data, "taskId"),
            "transition": pc.struct_field(data, ["nodeTransition", "TYPE"]),
        }
    )


def _pushes(events: _EventRows) -> pa.Table:
    push_rows = events.with_subtype(0, "push").where_size(2)
    rows = push_rows.with_subtype(1, *_PUSH_EVENTS).with_key(r"(?s)^/push/[^/]+$")
    names = {"command": _TEXT, "node_count": _LONG, "quorum": _LONG, "node": _TEXT, "status": _TEXT}
    data = payload_fields(rows["payload"], pa.struct(list(names.items())))
    return pa.table(
        {
            **_event_columns(rows),
            "job": pc.utf8_slice_codeunits(rows["key"], len("/push/")),
            **{name: pc.struct_field(data, name) for name in names},
        }
    )


def _throughput(events: _EventRows) -> pa.Table:
    hours = events["at_us"].to_numpy(zero_copy_only=False) // _HOUR_US * _HOUR_US
    table = pa.table({"hour_us": hours, "type": pc.binary_join(events["type"], "/")})
    counts = table.group_by(["hour_us", "type"], use_threads=False).aggregate([([], "count_all")])
    return counts.rename_columns({"count_all": "events"})


def _event_columns(events: _EventRows) -> dict[str, pa.Array]:
    return {"event_id": events["event_id"], "at_us": events["at_us"], "name": events["name"]}


def _code(code: int) -> pa.Scalar:
    return pa.scalar(code, _INT)
