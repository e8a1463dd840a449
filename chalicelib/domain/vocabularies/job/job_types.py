"""Folds the `create`, `finish` and `clean` events of all jobs of a type into the state of the type.

The state is bounded: the open runs, the last runs, and numbers by day. A run is identified by the id of its job, and a
repeated `create` event changes nothing. If a run ends repeatedly, the last end counts, while it is one of the last.

Beyond `MAX_OPEN_RUNS` open runs are only counted. Their start is unknown when they end, and repeated `create` events
of them are counted too.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.objects.ref import State
from chalicelib.domain.objects.summary import truncate
from chalicelib.domain.vocabularies.job import duration_histogram
from chalicelib.domain.vocabularies.job.jobs import author, error_message, outcome

JOB_TYPE_EVENTS = ("create", "finish", "clean")
MAX_OPEN_RUNS = 200
MAX_LAST_RUNS = 20
DAYS = 30
RID = "rid"
"""The property of a run with the id that its client has given to it, usually a UUID."""
MAX_RID_LENGTH = 36
OUTCOMES = ("success", "failure", "timeout")

Fields = Mapping[str, Any]
_Run = Mapping[str, Any]


def fold_job_type(state: State | None, at_us: int, native: Fields) -> State | None:
    """The state after an event. `state` is not changed."""
    at = timestamps.iso(at_us)
    if native["event"] == "create":
        return _start_run({**(state or _new_state(native, at)), "updatedAt": at}, native, at)
    return None if state is None else _end_run({**state, "updatedAt": at}, native, at)


def success_rate(days: Sequence[Fields]) -> float | None:
    """The share of the runs that succeeded. None without any run."""
    runs = sum(day[name] for day in days for name in OUTCOMES)
    return sum(day["success"] for day in days) / runs if runs else None


def recent_days(state: State, today: date) -> list[Fields]:
    """The numbers of today and of the days before it, as many as the statistics cover."""
    first = _first_day(today)
    return [day for day in state["days"] if day["day"] >= first]


def _new_state(native: Fields, at: str) -> State:
    return {
        "type": native["type"],
        "createdAt": at,
        "open": 0,
        "openRuns": [],
        "runs": [],
        "consecutiveFailures": 0,
        "lastSuccess": None,
        "lastFailure": None,
        "earlier": {"failures": 0, "success": None, "failure": None},
        "days": [],
    }


def _start_run(state: State, native: Fields, at: str) -> State:
    number, open_runs = native["id"], state["openRuns"]
    if _find(open_runs, number) is not None:
        return state
    if len(open_runs) < MAX_OPEN_RUNS:
        run = {
            "id": number,
            "run": _next_run(state, number),
            "node": native["node"],
            "startedAt": at,
            **_author(native),
            **_client_run_id(native),
        }
        open_runs = [*open_runs, run]
    return {**state, "open": state["open"] + 1, "openRuns": open_runs}


def _end_run(state: State, native: Fields, at: str) -> State:
    number, open_runs = native["id"], state["openRuns"]
    started = _find(open_runs, number)
    if started is not None:
        others = [run for run in open_runs if run is not started]
        state = {**state, "open": state["open"] - 1, "openRuns": others}
    elif (ended := _find(state["runs"], number)) is not None:
        started, state = ended, _without_run(state, ended)
    elif state["open"] > len(open_runs):
        started = {"id": number, "run": _next_run(state, number), "startedAt": None, **_author(native)}
        state = {**state, "open": state["open"] - 1}
    else:  # The run is not known any more, or was never created.
        return state
    return _with_run(state, _ended_run(started, native, at))


def _ended_run(started: _Run, native: Fields, at: str) -> _Run:
    since, error = started["startedAt"], error_message(native)
    return {
        "id": started["id"],
        "run": started["run"],
        "node": native["node"],
        "outcome": outcome(native),
        "startedAt": since,
        "endedAt": at,
        "durationS": None if since is None else (timestamps.parse(at) - timestamps.parse(since)) / 1_000_000,
        **({} if error is None else {"error": truncate(next(iter(error.splitlines()), ""))}),
        **({"author": started["author"]} if "author" in started else {}),
    }


def _with_run(state: State, run: _Run) -> State:
    """Add a run that has ended."""
    runs, earlier = [run, *state["runs"]], state["earlier"]
    if len(runs) > MAX_LAST_RUNS:
        oldest = runs.pop()
        is_success = oldest["outcome"] == "success"
        earlier = {
            **earlier,
            "failures": 0 if is_success else earlier["failures"] + 1,
            "success" if is_success else "failure": oldest,
        }
    return _with_derived_members({**state, "runs": runs, "earlier": earlier, "days": _count(state["days"], run, 1)})


def _without_run(state: State, run: _Run) -> State:
    """Remove one of the last runs, because it ends again."""
    runs = [other for other in state["runs"] if other is not run]
    return {**state, "runs": runs, "days": _count(state["days"], run, -1)}


def _with_derived_members(state: State) -> State:
    runs, earlier = state["runs"], state["earlier"]
    successes = [place for place, run in enumerate(runs) if run["outcome"] == "success"]
    failures = [place for place, run in enumerate(runs) if run["outcome"] != "success"]
    return {
        **state,
        "consecutiveFailures": successes[0] if successes else len(runs) + earlier["failures"],
        "lastSuccess": runs[successes[0]] if successes else earlier["success"],
        "lastFailure": runs[failures[0]] if failures else earlier["failure"],
    }


def _count(days: Sequence[Fields], run: _Run, sign: int) -> list[Fields]:
    """The numbers by day, with a run added or removed. Days that are too old are left out."""
    name, duration_s = run["endedAt"][:10], run["durationS"]
    by_name = {day["day"]: day for day in days}
    day = by_name.get(name)
    if day is None:
        if sign < 0:
            return list(days)
        day = {"day": name, **dict.fromkeys(OUTCOMES, 0), "durations": {}}
    day = {**day, run["outcome"]: day[run["outcome"]] + sign}
    # A timeout says how long the job was silent, not how long it ran.
    if duration_s is not None and run["outcome"] != "timeout":
        day["durations"] = duration_histogram.add_count(day["durations"], duration_s, sign)
    by_name[name] = day
    first = _first_day(date.fromisoformat(max(by_name)))
    return [by_name[each] for each in sorted(by_name) if each >= first]


def _first_day(last: date) -> str:
    return (last - timedelta(days=DAYS - 1)).isoformat()


def _next_run(state: State, number: int) -> int:
    """The number of the run that a job begins, as far as its former runs are known."""
    former = _find(state["runs"], number)
    return 1 if former is None else former["run"] + 1


def _find(runs: Sequence[_Run], number: int) -> _Run | None:
    """The run of a job. If there are several, the one that ended last."""
    return next((run for run in runs if run["id"] == number), None)


def _client_run_id(native: Fields) -> Fields:
    """The id that the client has given to the run, if it can be one."""
    rid = native["props"].get(RID, "")
    return {RID: rid} if 0 < len(rid) <= MAX_RID_LENGTH else {}


def _author(native: Fields) -> Fields:
    name = author(native)
    return {} if name is None else {"author": name}
