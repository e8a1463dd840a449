"""What messages say about the type of a job: its previous run, and how long its runs usually take."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chalicelib.domain import timestamps
from chalicelib.domain.vocabularies.job.duration_histogram import percentile
from chalicelib.services.jobs.job_types import job_type_state
from chalicelib.services.notifications.messages.times import MessageTimes, parse_time
from chalicelib.services.reading.log_reader import LogReader

_OUTCOMES = {"success": "succeeded", "failure": "failed", "timeout": "timed out"}


class JobTypeStatistics(NamedTuple):
    """The current state of a job type."""

    runs: Sequence[Mapping[str, Any]]
    """The last runs that have ended, the latest first."""
    p50_s: float | None
    """Half of the runs of the last 30 days took at most this many seconds."""
    p90_s: float | None


ReadJobType = Callable[[int, str], JobTypeStatistics | None]
"""Reads the statistics of a job type of a server. None: there are none."""


def no_job_types(server: int, job_type: str) -> None:
    """A `ReadJobType` for processes without statistics."""
    del server, job_type


def read_job_type(reader: LogReader, server: int, job_type: str) -> JobTypeStatistics | None:
    """The statistics of a job type. None if no job of this type was created."""
    state = job_type_state(reader, server, job_type)
    if state is None:
        return None
    durations = [day["durations"] for day in state["days"]]
    return JobTypeStatistics(state["runs"], percentile(durations, 50), percentile(durations, 90))


def job_type_facts(statistics: JobTypeStatistics, before_us: int, times: MessageTimes) -> dict[str, Any] | None:
    """The variable `job_type` of templates. The previous run is the last one that ended before `before_us`.

    The durations are the current ones: those of that time would take a read of all runs.
    """
    before = timestamps.iso(before_us)
    previous = next((run for run in statistics.runs if "" < str(run.get("endedAt") or "") < before), None)
    facts: dict[str, Any] = {} if previous is None else {"previous": _describe(previous, times)}
    if statistics.p50_s is not None:
        facts |= {"usual_s": _rounded(statistics.p50_s), "slow_s": _rounded(statistics.p90_s or statistics.p50_s)}
    return facts or None


def _describe(run: Mapping[str, Any], times: MessageTimes) -> str:
    """A run in one line, such as `failed 2026-11-17 02:14:09 UTC: no space left`."""
    ended_us = parse_time(run.get("endedAt"))
    text = _OUTCOMES.get(str(run.get("outcome")), "ended")
    text += "" if ended_us is None else f" {times.text(ended_us)}"
    return f"{text}: {run['error']}" if run.get("error") else text


def _rounded(seconds: float) -> float:
    return round(seconds) if seconds >= 10 else round(seconds, 2)
