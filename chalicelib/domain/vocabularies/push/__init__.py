"""The push-job vocabulary: a command is sent to many nodes, which vote on it, run it and report.

The event `{"event": "quorum_vote", "job": "117", "node": "n1", "status": "success"}` has the core type
`push/quorum_vote` and the key `/push/117`.
"""

from chalicelib.domain.vocabularies.push import events, jobs, summary
from chalicelib.domain.vocabularies.vocabulary import Vocabulary, strip_folder

PUSH_VOCABULARY = Vocabulary(
    collections=jobs.COLLECTIONS,
    new_event=events.new_event,
    native_json=events.native_json,
    affected_objects=events.affected_objects,
    objects_with_key=events.objects_with_key,
    canonical_path=lambda _, path: strip_folder(path, events.FOLDER),
    fold=jobs.fold,
    full_state=jobs.full_state,
    is_full_state=jobs.is_full_state,
    summarize=summary.summarize,
)
