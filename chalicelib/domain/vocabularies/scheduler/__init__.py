"""The JobScheduler vocabulary: orders that pass through job chains, tasks of jobs, files, and the scheduler itself.

The event `{"TYPE": "OrderStepEnded", "key": "/chain,1", "nodeTransition": {"TYPE": "Success"}}` has the core type
`scheduler/OrderEvent/OrderStepEnded`: JobScheduler's type hierarchy becomes the list of subtypes.
"""

from chalicelib.domain.vocabularies.scheduler import events, overviews, summary
from chalicelib.domain.vocabularies.vocabulary import Vocabulary

SCHEDULER_VOCABULARY = Vocabulary(
    collections=overviews.COLLECTIONS,
    new_event=events.new_event,
    native_json=events.native_json,
    affected_objects=overviews.affected_objects,
    objects_with_key=overviews.objects_with_key,
    location=overviews.location,
    folder_path=overviews.folder_path,
    is_exact=overviews.is_exact,
    is_unique=overviews.is_unique,
    fold=overviews.fold,
    full_state=overviews.full_state,
    summarize=summary.summarize,
)
