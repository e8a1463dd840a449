"""Push feeds: the events of one push job, and the starts and ends of all of an organization's, as they come."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chalicelib.domain import sse, timestamps
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.vocabularies.push import sse_events
from chalicelib.domain.vocabularies.push.events import PUSH_JOB
from chalicelib.domain.vocabularies.push.jobs import is_over, is_whole
from chalicelib.services.feeds.feed import FeedQuery, following, stream
from chalicelib.services.feeds.suspension import END, Stream, at_once, next_piece
from chalicelib.services.objects.snapshots import one, snapshot
from chalicelib.services.ports import Clock, Measure, unmeasured
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention


@dataclass(frozen=True, slots=True)
class Manner:
    """How feeds behave."""

    keep_alive_s: float = 15.0
    """A comment comes after so long without an event."""
    wait_complete_s: float = 5.0
    """So long after its end a job's events are shown; then its summary."""
    expiration_s: float = 60.0
    """So long the events of an organization can be asked for again."""
    longest_s: float = float("inf")
    """So long an answer may take."""
    is_page: bool = False
    """Whether an answer ends as soon as it has something to tell, and its reader comes back for more."""


class PushFeeds:
    """The feeds, and the jobs themselves."""

    def __init__(
        self, present: LogReader, retention: Retention, clock: Clock, manner: Manner, measure: Measure = unmeasured
    ) -> None:
        self._present = present
        self._retention = retention
        self._clock = clock
        self._manner = manner
        self._measure = measure

    def job(self, server: int, job: str) -> State:
        """One job with its nodes."""
        found = self._overview(server, job)
        return found if is_whole(found) else one(self._present, server, ObjectRef(PUSH_JOB, f"/{job}")).one(f"/{job}")

    def jobs(self, server: int, most: int) -> list[State]:
        """The latest jobs, newest first, without their nodes."""
        found = snapshot(self._present, server, PUSH_JOB, PathQuery.of("/")).states.values()
        latest = sorted(found, key=lambda job: job["created_at"], reverse=True)[:most]
        return [{name: value for name, value in job.items() if name != "nodes"} for job in latest]

    def of_job(self, server: int, job: str, last_id: str | None) -> Stream[str]:
        """The job's events, from its start or after the one with `last_id`, until it ends; later its summary."""
        found = self._overview(server, job)
        ended_us = timestamps.parse(found["updated_at"]) if is_over(found) else None
        if ended_us is not None and self._now_us() - ended_us > self._manner.wait_complete_s * 1_000_000:
            return _just(sse_events.summary(self.job(server, job)))
        query = FeedQuery(server, sse_events.of_job(job), form=sse_events.job_frame)
        place = sse_events.place("job", last_id)
        if place is not None and self._is_known(query, place):
            if ended_us is not None and place.event_id >= ended_us:
                return _just("")  # whatever came after the end is for nobody
            query = replace(query, after=place.event_id)
        # A job that is over has nothing to wait for.
        return self._of_job(query, 0.0 if ended_us is not None else self._manner.longest_s)

    def of_organization(self, server: int, last_id: str | None, after: int | None = None) -> Stream[str]:
        """Starts and ends of the organization's jobs: what is new, or what came after `last_id` or `after`.

        Whoever was somewhere that is not known any more is told so, and gets what is left.
        """
        query = FeedQuery(server, sse_events.OF_ORGANIZATION, form=sse_events.organization_frame)
        if not last_id:
            return self._of_organization(
                replace(query, after=self._present.log.head(server).last if after is None else after), ()
            )
        place = sse_events.place("org", last_id)
        horizon_us = self._horizon_us(self._manner.expiration_s)
        if place is not None and place.at_us >= horizon_us and self._is_known(query, place):
            return self._of_organization(replace(query, after=place.event_id), (), known_us=place.at_us)
        left_after = max(horizon_us - 1, self._retention.forgotten(server).last)
        return self._of_organization(replace(query, after=left_after), (sse_events.start_of_history(horizon_us),))

    def _overview(self, server: int, job: str) -> State:
        """The job as it is stored: of a large one the nodes are missing, which takes reading its events."""
        path = f"/{job}"
        found = snapshot(self._present, server, PUSH_JOB, PathQuery((PathPattern(path),)))
        if path not in found.states:
            raise NotFound(f"there is no push job '{job[:200]}'")
        return found.states[path]

    def _of_job(self, query: FeedQuery, longest_s: float) -> Stream[str]:
        answers = self._answers(query, longest_s)
        while (seq := (yield from next_piece(answers))) is not END:
            match seq:
                case None:
                    yield sse.KEEPALIVE
                case NonEmpty(_, wires):
                    ends = next((place for place, text in enumerate(wires) if sse_events.ends_job(text)), None)
                    yield "".join(wires if ends is None else wires[: ends + 1])
                    if ends is not None:
                        return
        if self._manner.is_page:
            yield sse.RETRY

    def _of_organization(self, query: FeedQuery, first: Iterable[str], known_us: int = 0) -> Stream[str]:
        yield from first
        answers = self._answers(query, self._manner.longest_s)
        while (seq := (yield from next_piece(answers))) is not END:
            match seq:
                case None:
                    yield sse.KEEPALIVE
                case NonEmpty(event_id, wires):
                    known_us = event_id
                    yield "".join(wires)
                case Torn(event_id):
                    yield sse_events.start_of_history(event_id)
                    answers = self._answers(replace(query, after=event_id), self._manner.longest_s)
                case Empty(event_id) if known_us < self._horizon_us(self._manner.expiration_s / 2):
                    # Whoever comes back shall not find that their last event has expired meanwhile.
                    yield sse.position(sse_events.position_id(event_id, self._now_us()))
        if self._manner.is_page:
            yield sse.RETRY

    def _answers(self, query: FeedQuery, longest_s: float) -> Stream[EventSeq | None]:
        manner = self._manner
        heartbeat_s = None if manner.is_page else manner.keep_alive_s
        query = replace(query, timeout_s=longest_s)
        return stream(query, self._present, self._retention, heartbeat_s, once=manner.is_page, measure=self._measure)

    def _is_known(self, query: FeedQuery, place: sse_events.Place) -> bool:
        """Whether there is such an event on the feed, or, if no event is meant, such a place in the log."""
        if not place.is_event:
            return place.event_id <= self._present.log.head(query.server).last
        query = replace(query, after=max(place.event_id - 1, 0), limit=1, form=_event_id)
        match at_once(following(query, self._present, self._retention)):
            case NonEmpty(_, [found]):
                return found == str(place.event_id)
        return False

    def _horizon_us(self, ago_s: float) -> int:
        return self._now_us() - int(ago_s * 1_000_000)

    def _now_us(self) -> int:
        return self._clock() * 1000


def _event_id(event: Event) -> str:
    return str(event.event_id)


def _just(text: str) -> Stream[str]:
    yield text
