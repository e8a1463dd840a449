"""Parts: what some events, those of a file of the history, say of jobs, sets, orders and push jobs, in Arrow tables.

They are much less than the events, and add up: whichever files a run is told in, its parts make the same run.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import column, where
from glue_jobs.transforms.payloads import fields

FORMAT: Final = 1
"""Counted up when parts change: they are then made anew."""

COLUMNS: Final = ("event_id", "at", "type", "key", "payload")
"""What of the events is read."""

FAILURE, SUCCESS, TIMEOUT = range(3)
"""How a job ended."""

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
"""The columns of each kind of part; their server and day are the directory."""

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


def parts_of(events: pa.Table) -> dict[str, pa.Table]:
    """What these events, in the order of the log, say; each kind of part with its columns."""
    told = _Told.of(events.combine_chunks())
    made: Mapping[str, Callable[[_Told], pa.Table]] = {
        "jobs": _jobs,
        "jobsets": _jobsets,
        "orders": _orders,
        "pushes": _pushes,
        "throughput": _throughput,
    }
    return {kind: make(told).select(SCHEMAS[kind].names).cast(SCHEMAS[kind]) for kind, make in made.items()}


class _Told:
    """Some of the events of a table. A column is brought together when it is asked for: most are asked for once."""

    def __init__(self, events: Mapping[str, pa.Array], rows: pa.Array, more: Mapping[str, pa.Array]) -> None:
        self._events = events
        self._rows = rows
        self._more = more
        """Columns of these rows alone."""

    @classmethod
    def of(cls, events: pa.Table) -> "_Told":
        """All events of a table of the history."""
        columns = {name: column(events, name) for name in COLUMNS}
        columns |= {
            "at_us": columns["at"].cast(_LONG),
            "size": pc.list_value_length(columns["type"]),
            "begin": columns["type"].offsets[:-1],
        }
        return cls(columns, pa.array(np.arange(events.num_rows)), {})

    def __getitem__(self, name: str) -> pa.Array:
        return self._more[name] if name in self._more else self._events[name].take(self._rows)

    def subtype(self, place: int) -> pa.Array:
        """A part of the types; null where there are fewer."""
        is_there = pc.greater(self["size"], place)
        places = where(pc.add(self["begin"], pa.scalar(place, _INT)), is_there)
        return self._events["type"].values.take(places)

    def where(self, condition: pa.Array) -> "_Told":
        """Those of them the condition is true of."""
        more = {name: values.filter(condition) for name, values in self._more.items()}
        return _Told(self._events, self._rows.filter(condition), more)

    def where_size(self, size: int) -> "_Told":
        """Those whose type has so many subtypes."""
        return self.where(pc.equal(self["size"], size))

    def with_subtype(self, place: int, *names: str) -> "_Told":
        """Those whose subtype there is one of these; it is their `name`."""
        name = self.subtype(place)
        return self._with("name", name).where(pc.is_in(name, pa.array(names)))

    def with_number(self, folder: str) -> "_Told":
        """Those whose key is the folder with a number, written as we write it; that is their `number`."""
        is_number = pc.match_substring_regex(self["key"], f"^{folder}(0|[1-9][0-9]{{0,15}})\\z")
        found = self.where(pc.fill_null(is_number, False))
        return found._with("number", pc.utf8_slice_codeunits(found["key"], len(folder)).cast(_LONG))

    def with_key(self, pattern: str) -> "_Told":
        """Those whose key is like this."""
        return self.where(pc.fill_null(pc.match_substring_regex(self["key"], pattern), False))

    def _with(self, name: str, values: pa.Array) -> "_Told":
        return _Told(self._events, self._rows, {**self._more, name: values})


def _jobs(told: _Told) -> pa.Table:
    of_jobs = told.with_subtype(0, "job")
    typed = _job_events(of_jobs.where_size(4).with_subtype(1, *_JOB_EVENTS).with_number("/job/"))
    redirects = _job_events(of_jobs.where_size(3).with_subtype(1, "redirect").with_number("/job/"))
    events = pa.concat_tables([typed, redirects])
    keys = ["job", "node", "type", "jobset"]
    added_up = {
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
    # Events that end a job are in the order of the log: the last code is that of the last end.
    grouped = events.group_by(keys, use_threads=False).aggregate(list(added_up))
    return grouped.rename_columns({f"{column}_{how}": name for (column, how), name in added_up.items()})


def _job_events(told: _Told) -> pa.Table:
    """The events of jobs, as far as they follow the vocabulary, with what is added up of each."""
    said = fields(
        told["payload"],
        pa.struct(
            [("success", _TEXT), ("jobset", _LONG), ("log", pa.struct([("message", _TEXT)])), ("redirect", _TEXT)]
        ),
    )
    success, jobset, log, redirect = (pc.struct_field(said, name) for name in ("success", "jobset", "log", "redirect"))
    name, at_us = told["name"], told["at_us"]
    is_finish, is_redirect, is_clean = (pc.equal(name, one) for one in ("finish", "redirect", "clean"))
    is_progress = pc.equal(name, "progress")
    is_said = pc.and_(
        pc.or_(pc.invert(is_finish), pc.is_in(success, pa.array(["0", "1"]))),
        pc.or_(pc.invert(is_redirect), pc.is_valid(redirect)),
    )
    code = pc.case_when(
        pc.make_struct(is_clean, pc.and_(is_finish, pc.equal(success, "1")), is_finish), *map(_code, range(2, -1, -1))
    )
    has_ended = pc.or_(is_clean, is_finish)
    table = pa.table(
        {
            "event_id": told["event_id"],
            "at_us": at_us,
            "job": told["number"],
            "node": pc.if_else(is_redirect, redirect, told.subtype(2)),
            "type": told.subtype(3),
            "jobset": where(jobset, pc.greater_equal(jobset, 0)),
            "of_set_us": where(at_us, pc.is_in(name, pa.array(["create", "finish", "clean"]))),
            "started_us": where(at_us, pc.equal(name, "create")),
            "progressed_us": where(at_us, is_progress),
            "ended_us": where(at_us, has_ended),
            "ended_id": where(told["event_id"], has_ended),
            "code": code,
            "redirect": is_redirect.cast(_LONG),
            "progress": is_progress.cast(_LONG),
            "log": pc.and_(is_progress, pc.is_valid(log)).cast(_LONG),
        }
    )
    return table.filter(is_said)


def _jobsets(told: _Told) -> pa.Table:
    of_sets = told.with_subtype(0, "jobset").where_size(3)
    found = of_sets.with_subtype(1, *_SET_EVENTS).with_number("/jobset/")
    jobs = pc.struct_field(fields(found["payload"], pa.struct([("jobs", pa.list_(pa.struct([])))])), "jobs")
    planned = pc.fill_null(pc.list_value_length(jobs), 0)
    return pa.table(
        {
            **_of_event(found),
            "jobset": found["number"],
            "node": found.subtype(2),
            "planned": where(planned, pc.equal(found["name"], "createJobSet")),
        }
    )


def _orders(told: _Told) -> pa.Table:
    of_orders = told.with_subtype(0, "scheduler").where_size(3).with_subtype(1, "OrderEvent")
    found = of_orders.with_subtype(2, *_ORDER_EVENTS).with_key(r"(?s)^[^,]{2,},.")
    named = pc.extract_regex(found["key"], r"(?s)^(?P<chain>[^,]+),(?P<order>.+)$")
    said = fields(
        found["payload"],
        pa.struct([("nodeId", _TEXT), ("taskId", _TEXT), ("nodeTransition", pa.struct([("TYPE", _TEXT)]))]),
    )
    return pa.table(
        {
            **_of_event(found),
            "chain": pc.struct_field(named, "chain"),
            "order": pc.struct_field(named, "order"),
            "node": pc.struct_field(said, "nodeId"),
            "task": pc.struct_field(said, "taskId"),
            "transition": pc.struct_field(said, ["nodeTransition", "TYPE"]),
        }
    )


def _pushes(told: _Told) -> pa.Table:
    of_pushes = told.with_subtype(0, "push").where_size(2)
    found = of_pushes.with_subtype(1, *_PUSH_EVENTS).with_key(r"(?s)^/push/[^/]+$")
    names = {"command": _TEXT, "node_count": _LONG, "quorum": _LONG, "node": _TEXT, "status": _TEXT}
    said = fields(found["payload"], pa.struct(list(names.items())))
    return pa.table(
        {
            **_of_event(found),
            "job": pc.utf8_slice_codeunits(found["key"], len("/push/")),
            **{name: pc.struct_field(said, name) for name in names},
        }
    )


def _throughput(told: _Told) -> pa.Table:
    hours = told["at_us"].to_numpy(zero_copy_only=False) // _HOUR_US * _HOUR_US
    table = pa.table({"hour_us": hours, "type": pc.binary_join(told["type"], "/")})
    counted = table.group_by(["hour_us", "type"], use_threads=False).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": "events"})


def _of_event(told: _Told) -> dict[str, pa.Array]:
    return {"event_id": told["event_id"], "at_us": told["at_us"], "name": told["name"]}


def _code(code: int) -> pa.Scalar:
    return pa.scalar(code, _INT)
