"""Rules for the events that publishers send: jobs without an id, and events that need an existing job."""

from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.vocabularies.job.events import JOB


def is_without_id(event: NewEvent) -> bool:
    """Whether the event creates a job to which the server assigns the id."""
    return event.key is None and event.type[:2] == (JOB, "create")


def with_id(event: NewEvent, number: int) -> NewEvent:
    """The event of a job with the id that was assigned to it."""
    return event.model_copy(update={"key": f"/{JOB}/{number}"})


def needs_existing_job(event: NewEvent) -> bool:
    """Whether the event is ignored if there is no such job."""
    return event.type[:2] in ((JOB, "progress"), (JOB, "finish"))
