"""The events that matter to expectations."""

from dataclasses import dataclass

from chalicelib.domain.events.event import Event
from chalicelib.domain.expectations.expectation import Expectation
from chalicelib.domain.vocabularies import JOB_VOCABULARY


@dataclass(frozen=True, slots=True)
class JobFact:
    """An event of a job: its name, such as `create`, and what expectations need to know of it."""

    event_id: int
    name: str
    job: int
    type: str = ""
    node: str = ""
    is_success: bool = False
    """Whether the job has finished successfully."""

    @property
    def is_end(self) -> bool:
        return self.name in ("finish", "clean")


def job_fact(event: Event) -> JobFact | None:
    """None if the event is not about a single job."""
    if event.fields.type[:1] != ("job",):
        return None
    native = JOB_VOCABULARY.native_json(event)
    if native is None:
        return None
    return JobFact(
        event.event_id,
        native["event"],
        native["id"],
        native.get("type", ""),
        native["node"],
        native.get("success") == "1",
    )


def starts(fact: JobFact, expectation: Expectation) -> bool:
    """Whether the event starts a run of the expectation, unless the job is running already."""
    if fact.name != "create":
        return False
    if expectation.key is not None:
        return f"/job/{fact.job}" == expectation.key
    return fact.type == expectation.type and expectation.node in (None, fact.node)


def continues(fact: JobFact, expectation: Expectation) -> bool:
    """Whether the event belongs to the run of its job, if that is one of the expectation. The node may have changed."""
    if expectation.key is not None:
        return f"/job/{fact.job}" == expectation.key
    return fact.name == "redirect" or fact.type == expectation.type
