"""The work of the Spark jobs done by DuckDB: exports to Parquet, and Parquet to the tables of the reports.

Runs in the Spark venv: `python -m benchmarks.spark.duckdb_peer ingest|reports …`.
"""

import sys
import zlib
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.glue.reference_reports import FROM_EVENTS, MACROS, NAMES

_NUMBERS = ", ".join(f'"{name}" STRUCT(N BIGINT)' for name in ("server", "session", "at"))
_ITEM = f"STRUCT({_NUMBERS}, body STRUCT(S VARCHAR), z STRUCT(B VARCHAR))"
_EVENT = '[{"type":["VARCHAR"],"key":"VARCHAR","sourceTimestamp":"TIMESTAMPTZ","payload":"JSON"}]'


def main() -> None:
    task, source, to = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with duckdb.connect() as connection:
        connection.execute("set threads = 2; set preserve_insertion_order = false; set timezone = 'UTC'")
        connection.execute("set memory_limit = '2GB'")
        (_ingest if task == "ingest" else _reports)(connection, source, to)


def _ingest(connection: duckdb.DuckDBPyConnection, exports: Path, to: Path) -> None:
    connection.create_function("inflate", _inflate, ["BLOB"], "VARCHAR", type="arrow", null_handling="special")
    connection.execute(
        f"""
        copy (
            with items as (
                select distinct on (item.server.N, item.session.N) item.server.N as server, item.session.N as session,
                    item."at".N as us, item.body.S as body, item.z.B as z
                from (select Item as item from read_json('{exports}/AWSDynamoDB/*/data/*.json.gz',
                    format = 'newline_delimited', columns = {{Item: '{_ITEM}'}}, maximum_object_size = 1000000))
            ),
            bodies as (
                select server, session, us, from_json(coalesce(body, inflate(from_base64(z))), '{_EVENT}') as events
                from items
            ),
            each as (
                select server, session, us, unnest(events) as event, generate_subscripts(events, 1) as instance
                from bodies
            )
            select server, cast(make_timestamp(us) as date) as day, session, instance, us + instance - 1 as event_id,
                make_timestamp(us) as "at", event.type, event.key, event.sourceTimestamp as source_timestamp,
                event.payload::varchar as payload
            from each
        ) to '{to}' (format parquet, compression zstd, partition_by (server, day))"""
    )


def _inflate(deflated: pa.Array) -> pa.Array:
    bodies = [None if body is None else zlib.decompress(body).decode() for body in deflated.to_pylist()]
    return pa.array(bodies, pa.string())


def _reports(connection: duckdb.DuckDBPyConnection, lake: Path, to: Path) -> None:
    connection.execute(MACROS)
    connection.execute(
        f"""create view events as
        select server, epoch_us("at") as us, day, event_id, type, key,
            case when payload ->> '$.type' = 'json' then payload -> '$.data' end as data
        from (select * replace (payload::json as payload)
            from read_parquet('{lake}/events/*/*/*.parquet', hive_partitioning = true))"""
    )
    for name, query in FROM_EVENTS.items():
        connection.execute(f"create table {name} as {query}")
    for name in NAMES:
        connection.execute(
            f"copy {name} to '{to}/{name}' (format parquet, compression zstd, partition_by (server, day))"
        )


if __name__ == "__main__":
    main()
