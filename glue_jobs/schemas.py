"""Columns of the report tables. See `docs/reports.md` for their meanings. Server and day are in the path."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

_TEXT, _LONG, _INT, _DOUBLE = pa.string(), pa.int64(), pa.int32(), pa.float64()
_TIME: Final = pa.timestamp("us", "UTC")


def _columns(kind: pa.DataType, names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, kind) for name in names.split()]


_RUN: Final = [*_columns(_TIME, "started ended"), ("seconds", _DOUBLE)]
_DURATIONS: Final = _columns(_DOUBLE, "p50 p90 p99 mean longest")

TABLES: Final[Mapping[str, pa.Schema]] = {
    name: pa.schema(columns)
    for name, columns in {
        "job_runs": [
            ("job", _LONG),
            *_columns(_TEXT, "type node"),
            ("jobset", _LONG),
            *_RUN,
            ("waited", _DOUBLE),
            ("result", _TEXT),
            *_columns(_LONG, "redirects progresses logs events"),
        ],
        "job_statistics": [
            *_columns(_TEXT, "level type node"),
            *_columns(_LONG, "runs ended succeeded failed timeouts"),
            ("success_rate", _DOUBLE),
            *_DURATIONS,
        ],
        "throughput": [("hour", _TIME), ("type", _TEXT), ("events", _LONG)],
        "jobsets": [
            ("jobset", _LONG),
            ("node", _TEXT),
            *_RUN,
            ("result", _TEXT),
            ("planned", _INT),
            *_columns(_LONG, "jobs succeeded failed timeouts"),
        ],
        "timeouts": [*_columns(_TEXT, "kind name key node"), *_RUN],
        "order_runs": [
            *_columns(_TEXT, "chain order"),
            ("run", _LONG),
            ("added", _TIME),
            *_RUN,
            ("waited", _DOUBLE),
            *_columns(_LONG, "steps setbacks suspensions errors"),
            *_columns(_TEXT, "end_node result"),
        ],
        "order_steps": [
            *_columns(_TEXT, "chain order"),
            *_columns(_LONG, "run step"),
            *_columns(_TEXT, "node task"),
            *_RUN,
            ("result", _TEXT),
        ],
        "chain_nodes": [
            *_columns(_TEXT, "chain node"),
            *_columns(_LONG, "steps ended errors setbacks"),
            *_DURATIONS,
        ],
        "push_runs": [
            *_columns(_TEXT, "job command"),
            *_RUN,
            ("waited", _DOUBLE),
            ("result", _TEXT),
            *_columns(_LONG, "nodes quorum votes willing ran succeeded failed"),
        ],
        "push_nodes": [
            ("node", _TEXT),
            *_columns(_LONG, "jobs votes willing unwilling unavailable"),
            ("availability", _DOUBLE),
            *_columns(_LONG, "rehabs runs succeeded failed"),
            *_DURATIONS,
        ],
        "waits": [*_columns(_TEXT, "kind name"), ("waits", _LONG), *_DURATIONS],
        "slowest": [
            ("kind", _TEXT),
            ("rank", _INT),
            *_columns(_TEXT, "name key node"),
            ("started", _TIME),
            ("seconds", _DOUBLE),
        ],
        "most_failing": [
            ("kind", _TEXT),
            ("rank", _INT),
            ("name", _TEXT),
            *_columns(_LONG, "ended failures"),
            ("failure_rate", _DOUBLE),
        ],
    }.items()
}
