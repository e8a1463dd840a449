"""The vocabulary of push jobs: a command sent to many nodes, which vote, run it, and report.

An event is written `{"event": "quorum_vote", "job": "117", "node": "n1", "status": "success"}`; its core type is
`push/quorum_vote`, its key `/push/117`.
"""

from chalicelib.domain.vocabularies.push.events import (
    aliases,
    canonical,
    is_exact,
    is_unique,
    new_event,
    objects_of,
    own_json,
    refs_of_key,
)
from chalicelib.domain.vocabularies.push.jobs import COLLECTIONS, fold, is_whole, whole
from chalicelib.domain.vocabularies.push.summary import brief_of

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
