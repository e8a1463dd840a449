"""The vocabulary of AnyJob: jobs that run somewhere, and sets of them.

An event is written `{"event": "finish", "node": "n1", "id": 117, "type": "backup", "success": "1", …}`; its core type
is `job/finish/n1/backup`, its key `/job/117`; that of a set's is `jobset/finishJobSet/n1`, its key `/jobset/7`.
"""

from chalicelib.domain.vocabularies.job.events import new_event, own_json
from chalicelib.domain.vocabularies.job.objects import (
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
from chalicelib.domain.vocabularies.job.summary import brief_of

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
