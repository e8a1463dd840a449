"""The JSON of a fold, so that it need not start from the beginning each time."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from chalicelib.domain.expectations.alarm import Alarm
from chalicelib.domain.expectations.expectation import Version
from chalicelib.domain.expectations.fold import ExpectationFold, OpenAlarms, Run

FORMAT = 1
"""Increase it when the JSON or the rules change: the folds then start over."""


def to_json(fold: ExpectationFold) -> dict[str, Any]:
    """The state of the fold, without its versions."""
    return {
        "format": FORMAT,
        "index": fold.index,
        "times": [fold.time_us, fold.at_us, fold.previous_us, fold.upcoming_us, fold.unmet_us, fold.last_start_us],
        "awaiting": fold.awaiting,
        "runs": [[job, *astuple(run)] for job, run in fold.runs.items()],
        "open": {kind: astuple(opened) for kind, opened in fold.open.items()},
        "pending": [[alarm.kind, alarm.due_us, alarm.data] for alarm in fold.pending.values()],
        "unexpected": [[list(identity), event_id] for identity, event_id in fold.unexpected.items()],
    }


def from_json(versions: Sequence[Version], state: Mapping[str, Any]) -> ExpectationFold | None:
    """The fold that continues with `versions`. None if it must start over, because the past has changed."""
    if state.get("format") != FORMAT or state["index"] >= len(versions):
        return None
    time_us, at_us, previous_us, upcoming_us, unmet_us, last_start_us = state["times"]
    following = versions[state["index"] + 1 : state["index"] + 2]
    if following and following[0].at_us < time_us:
        return None
    fold = ExpectationFold(versions)
    fold.index, fold.time_us, fold.at_us = state["index"], time_us, at_us
    fold.previous_us, fold.upcoming_us, fold.unmet_us = previous_us, upcoming_us, unmet_us
    fold.last_start_us, fold.awaiting = last_start_us, list(state["awaiting"])
    fold.runs = {job: Run(*fields) for job, *fields in state["runs"]}
    fold.open = {kind: OpenAlarms(*fields) for kind, fields in state["open"].items()}
    pending = (Alarm(*fields) for fields in state["pending"])
    fold.pending = {alarm.identity: alarm for alarm in pending}
    fold.unexpected = {tuple(identity): event_id for identity, event_id in state["unexpected"]}
    return fold
