"""Configurations of observers for common wishes, without a channel and its addresses."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ObserverPreset:
    """What an observer observes. To use it, add a channel and its `config`."""

    name: str
    title: str
    description: str
    configuration: dict[str, Any]

    @property
    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "configuration": self.configuration,
        }


PRESETS = (
    ObserverPreset(
        "job-failed",
        "A job failed",
        "Jobs that finish without success, or that time out.",
        {"scope": "global", "types": ["job/finish/*", "job/clean/*"], "filter": 'event.success != "1"'},
    ),
    ObserverPreset(
        "my-job-ended",
        "A job of mine ended",
        "Jobs whose author is the user of the observer, however they end.",
        {"scope": "private", "types": ["job/finish/*", "job/clean/*"]},
    ),
    ObserverPreset(
        "job-missing-or-late",
        "A job is missing or late",
        "Jobs that are expected and do not start in time, or run or stay silent for too long.",
        {"scope": "global", "types": ["job/missed/*", "job/late/*", "job/overdue/*"]},
    ),
    ObserverPreset(
        "job-recovered",
        "Recovered",
        "Expected jobs that succeed again after an alarm.",
        {"scope": "global", "types": ["job/recovered/*"]},
    ),
)
