"""The vocabulary of JobScheduler: orders on their way through job chains, tasks of jobs, files, the scheduler itself.

An event is written `{"TYPE": "OrderStepEnded", "key": "/chain,1", "nodeTransition": {"TYPE": "Success"}}`; its core
type is `scheduler/OrderEvent/OrderStepEnded`: the hierarchy is the type.
"""

from chalicelib.domain.vocabularies.scheduler.events import new_event, own_json
from chalicelib.domain.vocabularies.scheduler.overviews import (
    COLLECTIONS,
    aliases,
    canonical,
    fold,
    is_exact,
    is_unique,
    is_whole,
    objects_of,
    refs_of_key,
    whole,
)
from chalicelib.domain.vocabularies.scheduler.summary import brief_of

__all__ = [
    "COLLECTIONS",
    "aliases",
    "brief_of",
    "canonical",
    "fold",
    "is_exact",
    "is_unique",
    "is_whole",
    "new_event",
    "objects_of",
    "own_json",
    "refs_of_key",
    "whole",
]
