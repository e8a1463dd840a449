"""The AnyJob vocabulary: jobs, sets of jobs, and types of jobs.

A job event such as `{"event": "finish", "node": "n1", "id": 117, "type": "backup", "success": "1", …}` has the core
type `job/finish/n1/backup` and the key `/job/117`. An event of a job set has a core type such as
`jobset/finishJobSet/n1` and a key such as `/jobset/7`.
"""

from chalicelib.domain.vocabularies.job import events, objects, summary
from chalicelib.domain.vocabularies.vocabulary import Vocabulary, strip_folder

JOB_VOCABULARY = Vocabulary(
    collections=objects.COLLECTIONS,
    new_event=events.new_event,
    native_json=events.native_json,
    affected_objects=objects.affected_objects,
    objects_with_key=objects.objects_with_key,
    canonical_path=lambda collection, path: strip_folder(path, f"/{collection}"),
    fold=objects.fold,
    full_state=objects.full_state,
    is_full_state=objects.is_full_state,
    summarize=summary.summarize,
)
