"""A second implementation of the reports, with DuckDB directly on export files.

Shares no code with the Spark jobs. Integers are int64, durations float64, times in UTC.
"""

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

Row = tuple[Any, ...]

_COMMIT: Final = pa.schema(
    [("server", pa.int64()), ("session", pa.int64()), ("first_us", pa.int64()), ("body", pa.string())]
)

# Sorted by seconds, so that the mean does not depend on the order of commits.
_STATISTICS: Final = """
    quantile_cont(seconds, 0.5) as p50, quantile_cont(seconds, 0.9) as p90, quantile_cont(seconds, 0.99) as p99,
    avg(seconds order by seconds) as mean, max(seconds) as longest"""

_FINISHED_STATISTICS: Final = """
    quantile_cont(seconds, 0.5) filter (where finished) as p50,
    quantile_cont(seconds, 0.9) filter (where finished) as p90,
    quantile_cont(seconds, 0.99) filter (where finished) as p99,
    avg(seconds order by seconds) filter (where finished) as mean, max(seconds) filter (where finished) as longest"""

_MACROS: Final = """
create macro text_of(data, path) as case when json_type(data, path) = 'VARCHAR' then data ->> path end;
create macro whole_of(data, path) as
    case when json_type(data, path) = 'UBIGINT' then try_cast(data ->> path as bigint) end;
create macro seconds_between(from_us, to_us) as (to_us - from_us) / 1e6;
"""

# Aggregates ending in _null also take rows with null.
_EVENTS: Final[Mapping[str, str]] = {
    "events": """
        with once as (select distinct on (server, session) * from commits where server > 0),
        each as (
            select server, first_us, unnest(json_extract(body, '$[*]')) as event,
                generate_subscripts(json_extract(body, '$[*]'), 1) as place
            from once
        )
        select server, first_us as us, cast(make_timestamp(first_us) as date) as day, first_us + place - 1 as event_id,
            from_json(event -> '$.type', '["VARCHAR"]') as type, event ->> '$.key' as key,
            case when event ->> '$.payload.type' = 'json' then event -> '$.payload.data' end as data
        from each""",
    "job_events": """
        select server, us, day, event_id, try_cast(substr(key, 6) as bigint) as job, type[2] as event, type[4] as type,
            case type[2] when 'redirect' then text_of(data, '$.redirect') else type[3] end as node,
            case type[2] when 'clean' then 'timeout'
                when 'finish' then if(text_of(data, '$.success') = '1', 'success', 'failure') end as result,
            whole_of(data, '$.jobset') as jobset, json_type(data, '$.log') = 'OBJECT' as has_log
        from events
        where type[1] = 'job' and regexp_full_match(key, '/job/(0|[1-9][0-9]{0,15})')
            and case type[2]
                when 'redirect' then len(type) = 3 and text_of(data, '$.redirect') is not null
                when 'finish' then len(type) = 4 and text_of(data, '$.success') in ('0', '1')
                else len(type) = 4 and type[2] in ('create', 'progress', 'clean') end""",
    "set_events": """
        select server, us, day, event_id, try_cast(substr(key, 9) as bigint) as jobset, type[2] as event,
            type[3] as node, if(json_type(data, '$.jobs') = 'ARRAY', json_array_length(data, '$.jobs'), 0) as planned
        from events
        where len(type) = 3 and type[1] = 'jobset'
            and type[2] in ('createJobSet', 'progressJobSet', 'finishJobSet', 'cleanJobSet')
            and regexp_full_match(key, '/jobset/(0|[1-9][0-9]{0,15})')""",
    "order_events": """
        with named as (
            select *, type[3] as event, regexp_extract(key, '^([^,]{2,}),(.+)$', ['chain', 'id'], 's') as names
            from events
            where len(type) = 3 and type[1] = 'scheduler' and type[2] = 'OrderEvent'
                and regexp_full_match(key, '[^,]{2,},.+', 's')
                and type[3] in ('OrderAdded', 'OrderRemoved', 'OrderStarted', 'OrderFinished', 'OrderNestedStarted',
                    'OrderNestedFinished', 'OrderStepStarted', 'OrderStepEnded', 'OrderSetBack', 'OrderNodeChanged',
                    'OrderSuspended', 'OrderResumed', 'OrderWaitingInTask')
        ),
        marked as (
            select *, last_value(case when event in ('OrderAdded', 'OrderStarted', 'OrderFinished') then event end
                ignore nulls) over (
                    partition by server, key order by event_id rows between unbounded preceding and 1 preceding
                ) as before
            from named
        ),
        numbered as (
            select *, count(*) filter (
                where event = 'OrderAdded' or event = 'OrderStarted' and (before is null or before = 'OrderFinished')
            ) over (partition by server, key order by event_id) as run
            from marked
        )
        select server, us, min(day) over (partition by server, key, run) as day, event_id, names.chain as chain,
            names.id as id, run, event, text_of(data, '$.nodeId') as node, text_of(data, '$.taskId') as task,
            text_of(data, '$.nodeTransition.TYPE') as transition
        from numbered""",
    "push_events": """
        select server, us, min(day) over (partition by server, key) as day, event_id, substr(key, 7) as job,
            type[2] as event, text_of(data, '$.node') as node, text_of(data, '$.status') as status,
            text_of(data, '$.command') as command, whole_of(data, '$.node_count') as nodes,
            whole_of(data, '$.quorum') as quorum
        from events
        where len(type) = 2 and type[1] = 'push' and starts_with(key, '/push/') and substr(key, 7) <> ''
            and not contains(substr(key, 7), '/')
            and type[2] in ('start', 'quorum_vote', 'quorum_succeeded', 'run_start', 'run_complete', 'job_complete',
                'rehab')""",
}
"""Events by subject. Order events have the number of their run."""

_RUNS: Final[Mapping[str, str]] = {
    "job_runs": """
        with runs as (
            select server, min(day) as day, job, arg_max(type, event_id) filter (where type is not null) as type,
                arg_max(node, event_id) as node, arg_min(jobset, event_id) filter (where jobset is not null) as jobset,
                min(us) filter (where event = 'create') as started_us,
                max(us) filter (where result is not null) as ended_us,
                min(us) filter (where event = 'progress') as progressed_us,
                arg_max(result, event_id) filter (where result is not null) as result,
                count(*) filter (where event = 'redirect') as redirects,
                count(*) filter (where event = 'progress') as progresses,
                count(*) filter (where event = 'progress' and has_log) as logs, count(*) as events
            from job_events group by server, job
        )
        select server, day, job, type, node, jobset, make_timestamp(started_us) as started,
            make_timestamp(ended_us) as ended, seconds_between(started_us, ended_us) as seconds,
            seconds_between(started_us, progressed_us) as waited, result, redirects, progresses, logs, events
        from runs""",
    "jobsets": """
        with sets as (
            select server, jobset, min(day) as day,
                arg_min(node, event_id) filter (where event = 'createJobSet') as node,
                min(us) filter (where event = 'createJobSet') as started_us,
                max(us) filter (where event in ('finishJobSet', 'cleanJobSet')) as ended_us,
                arg_max(event, event_id) filter (where event in ('finishJobSet', 'cleanJobSet')) as ending,
                arg_min(planned, event_id) filter (where event = 'createJobSet') as planned
            from set_events group by server, jobset
        ),
        members as (
            select server, jobset, job, min(day) as day,
                arg_max(result, event_id) filter (where result is not null) as result
            from job_events where jobset is not null and event in ('create', 'finish', 'clean')
            group by server, jobset, job
        ),
        counts as (
            select server, jobset, min(day) as day, count(*) as jobs,
                count(*) filter (where result = 'success') as succeeded,
                count(*) filter (where result = 'failure') as failed,
                count(*) filter (where result = 'timeout') as timeouts
            from members group by server, jobset
        )
        select server, least(sets.day, counts.day) as day, jobset, node, make_timestamp(started_us) as started,
            make_timestamp(ended_us) as ended, seconds_between(started_us, ended_us) as seconds,
            case ending when 'finishJobSet' then 'complete' when 'cleanJobSet' then 'timeout' end as result,
            cast(planned as bigint) as planned, coalesce(jobs, 0) as jobs, coalesce(succeeded, 0) as succeeded,
            coalesce(failed, 0) as failed, coalesce(timeouts, 0) as timeouts
        from sets full join counts using (server, jobset)""",
    "order_runs": """
        with runs as (
            select server, day, chain, id, run, min(us) filter (where event = 'OrderAdded') as added_us,
                min(us) filter (where event = 'OrderStarted') as started_us,
                max(us) filter (where event = 'OrderFinished') as ended_us,
                count(*) filter (where event = 'OrderStepStarted') as steps,
                count(*) filter (where event = 'OrderSetBack') as setbacks,
                count(*) filter (where event = 'OrderSuspended') as suspensions,
                count(*) filter (where event = 'OrderStepEnded' and transition = 'Error') as errors,
                arg_max_null(node, event_id) filter (where event = 'OrderFinished') as end_node,
                arg_max_null(transition, event_id) filter (where event = 'OrderStepEnded') as last_transition
            from order_events group by server, day, chain, id, run
        )
        select server, day, chain, id as "order", run, make_timestamp(added_us) as added,
            make_timestamp(started_us) as started, make_timestamp(ended_us) as ended,
            seconds_between(started_us, ended_us) as seconds, seconds_between(added_us, started_us) as waited,
            steps, setbacks, suspensions, errors, end_node,
            case when ended_us is null then null when last_transition = 'Error' then 'failure'
                else 'success' end as result
        from runs""",
    "order_steps": """
        with turns as (
            select *, lead(event) over turn as next_event, lead(us) over turn as next_us,
                lead(transition) over turn as next_transition
            from order_events where event in ('OrderStepStarted', 'OrderStepEnded')
            window turn as (partition by server, chain, id, run order by event_id)
        ),
        steps as (
            select *, row_number() over (partition by server, chain, id, run order by event_id) as step,
                case when next_event = 'OrderStepEnded' then next_us end as ended_us,
                case when next_event = 'OrderStepEnded' then lower(next_transition) end as result
            from turns where event = 'OrderStepStarted'
        )
        select server, day, chain, id as "order", run, step, node, task, make_timestamp(us) as started,
            make_timestamp(ended_us) as ended, seconds_between(us, ended_us) as seconds, result
        from steps""",
    "push_runs": """
        with runs as (
            select server, day, job, arg_min_null(command, event_id) filter (where event = 'start') as command,
                min(us) filter (where event = 'start') as started_us,
                min(us) filter (where event = 'job_complete') as ended_us,
                min(us) filter (where event = 'quorum_succeeded') as ready_us,
                arg_min_null(status, event_id) filter (where event = 'job_complete') as result,
                arg_min_null(nodes, event_id) filter (where event = 'start') as nodes,
                arg_min_null(quorum, event_id) filter (where event = 'start') as quorum,
                count(*) filter (where event = 'quorum_vote') as votes,
                count(*) filter (where event = 'quorum_vote' and status = 'success') as willing,
                count(*) filter (where event = 'run_start') as ran,
                count(*) filter (where event = 'run_complete' and status = 'success') as succeeded,
                count(*) filter (where event = 'run_complete' and status is distinct from 'success') as failed
            from push_events group by server, day, job
        )
        select server, day, job, command, make_timestamp(started_us) as started, make_timestamp(ended_us) as ended,
            seconds_between(started_us, ended_us) as seconds, seconds_between(started_us, ready_us) as waited, result,
            nodes, quorum, votes, willing, ran, succeeded, failed
        from runs""",
}
"""One row per run."""

_SUMS: Final[Mapping[str, str]] = {
    "job_statistics": f"""
        with known as (select *, coalesce(result in ('success', 'failure'), false) as finished from job_runs),
        sums as (
            select server, day, case grouping(type, node) when 3 then 'day' when 1 then 'type' when 2 then 'node'
                    else 'type and node' end as level, type, node, count(*) as runs, count(result) as ended,
                count(*) filter (where result = 'success') as succeeded,
                count(*) filter (where result = 'failure') as failed,
                count(*) filter (where result = 'timeout') as timeouts, {_FINISHED_STATISTICS}
            from known
            group by grouping sets ((server, day), (server, day, type), (server, day, node), (server, day, type, node))
        )
        select server, day, level, type, node, runs, ended, succeeded, failed, timeouts,
            succeeded / nullif(ended, 0) as success_rate, p50, p90, p99, mean, longest
        from sums""",
    "throughput": """
        select server, day, make_timestamp(us // 3600000000 * 3600000000) as hour,
            array_to_string(type, '/') as type, count(*) as events
        from events group by all""",
    "timeouts": """
        select server, day, 'job' as kind, type as name, '/job/' || job as key, node, started, ended, seconds
        from job_runs where result = 'timeout'
        union all
        select server, day, 'jobset', null, '/jobset/' || jobset, node, started, ended, seconds
        from jobsets where result = 'timeout'
        union all
        select server, day, 'push', command, '/push/' || job, null, started, ended, seconds
        from push_runs where result = 'timed_out'""",
    "chain_nodes": f"""
        with found as (
            select server, day, chain, node, true as is_step, ended, seconds, result from order_steps
            union all
            select server, day, chain, node, false, null, null, null from order_events where event = 'OrderSetBack'
        )
        select server, day, chain, node, count(*) filter (where is_step) as steps, count(ended) as ended,
            count(*) filter (where result = 'error') as errors, count(*) filter (where not is_step) as setbacks,
            {_STATISTICS}
        from found group by server, day, chain, node""",
    "push_nodes": f"""
        with pairs as (
            select server, day, node, job, count(*) filter (where event = 'quorum_vote') as votes,
                count(*) filter (where event = 'quorum_vote' and status = 'success') as willing,
                count(*) filter (where event = 'quorum_vote' and status = 'failure') as unwilling,
                count(*) filter (where event = 'rehab') as rehabs, count(*) filter (where event = 'run_start') as runs,
                count(*) filter (where event = 'run_complete' and status = 'success') as succeeded,
                count(*) filter (where event = 'run_complete' and status is distinct from 'success') as failed,
                seconds_between(min(us) filter (where event = 'run_start'),
                    max(us) filter (where event = 'run_complete')) as seconds
            from push_events where node is not null group by server, day, node, job
        ),
        nodes as (
            select server, day, node, count(*) as jobs, cast(sum(votes) as bigint) as votes,
                cast(sum(willing) as bigint) as willing, cast(sum(unwilling) as bigint) as unwilling,
                cast(sum(rehabs) as bigint) as rehabs, cast(sum(runs) as bigint) as runs,
                cast(sum(succeeded) as bigint) as succeeded, cast(sum(failed) as bigint) as failed, {_STATISTICS}
            from pairs group by server, day, node
        )
        select server, day, node, jobs, votes, willing, unwilling, votes - willing - unwilling as unavailable,
            (willing + unwilling) / nullif(votes, 0) as availability, rehabs, runs, succeeded, failed,
            p50, p90, p99, mean, longest
        from nodes""",
    "waits": f"""
        with found as (
            select server, day, 'job' as kind, type as name, waited as seconds from job_runs
            union all select server, day, 'order', chain, waited from order_runs
            union all select server, day, 'push', command, waited from push_runs
        )
        select server, day, kind, name, count(*) as waits, {_STATISTICS}
        from found where seconds is not null group by server, day, kind, name""",
    "slowest": """
        with found as (
            select server, day, 'job' as kind, type as name, '/job/' || job as key, node, started, seconds
            from job_runs where result in ('success', 'failure')
            union all
            select server, day, 'order', chain, chain || ',' || "order", null, started, seconds from order_runs
            union all select server, day, 'push', command, '/push/' || job, null, started, seconds from push_runs
        ),
        ranked as (
            select *, row_number() over (
                partition by server, day, kind order by seconds desc, key asc, started asc) as rank
            from found where seconds is not null
        )
        select server, day, kind, rank, name, key, node, started, seconds from ranked where rank <= 10""",
    "most_failing": """
        with found as (
            select server, day, 'job' as kind, type as name, result in ('failure', 'timeout') as is_failure
            from job_runs where result is not null
            union all select server, day, 'order', chain, result = 'failure' from order_runs where result is not null
            union all select server, day, 'push', command, result <> 'complete' from push_runs where result is not null
        ),
        names as (
            select server, day, kind, name, count(*) as ended, count(*) filter (where is_failure) as failures,
                failures / ended as failure_rate
            from found group by server, day, kind, name
        ),
        ranked as (
            select *, row_number() over (
                partition by server, day, kind order by failures desc, failure_rate desc, name asc nulls last) as rank
            from names where failures > 0
        )
        select server, day, kind, rank, name, ended, failures, failure_rate from ranked where rank <= 10""",
}
"""Aggregates of runs and events."""

NAMES: Final = (*_RUNS, *_SUMS)

FROM_EVENTS: Final[Mapping[str, str]] = {
    **{name: query for name, query in _EVENTS.items() if name != "events"},
    **_RUNS,
    **_SUMS,
}
"""The queries that derive the tables from `events`, in order."""

MACROS: Final = _MACROS
"""Macros of these queries."""


def tables(exports_dir: Path) -> dict[str, pa.Table]:
    """All tables by name. Each starts with `server` and `day`, followed by the documented columns."""
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        connection.execute(_MACROS)
        connection.register("commits", pa.Table.from_pylist(list(_commits(exports_dir)), schema=_COMMIT))
        for name, query in {**_EVENTS, **_RUNS, **_SUMS}.items():
            connection.execute(f"create table {name} as {query}")
        return {name: _in_utc(connection.table(name).order("all").to_arrow_table()) for name in NAMES}


def rows(table: pa.Table) -> list[Row]:
    """The rows of a table, sorted by all columns, null last."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _commits(exports_dir: Path) -> Iterator[dict[str, Any]]:
    """The commits in all data files, with duplicates. Deletions have no image and are skipped."""
    for path in sorted(exports_dir.rglob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                found = json.loads(line)
                item = found.get("Item") or found.get("NewImage")
                if item is not None:
                    yield _commit(item)


def _commit(item: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    deflated = item.get("z")
    body = item["body"]["S"] if deflated is None else zlib.decompress(base64.b64decode(deflated["B"])).decode()
    return {
        "server": int(item["server"]["N"]),
        "session": int(item["session"]["N"]),
        "first_us": int(item["at"]["N"]),
        "body": body,
    }


def _in_utc(table: pa.Table) -> pa.Table:
    """The table with time zones added to times."""
    kinds = [pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) else kind for kind in table.schema.types]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
