"""Push job feeds: the events of one push job, and the starts and ends of all push jobs of an organization."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chalicelib.domain import sse, timestamps
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.vocabularies.push import sse_events
from chalicelib.domain.vocabularies.push.events import EVENT_TYPES, NAME, PUSH_JOB, job_key
from chalicelib.domain.vocabularies.push.jobs import has_ended, is_full_state
from chalicelib.domain.vocabularies.push.summary import summarize
from chalicelib.services.feeds.feed import FeedQuery, long_poll, stream
from chalicelib.services.feeds.suspension import END, Stream, next_item, run_without_waiting
from chalicelib.services.objects.newest import newest_objects
from chalicelib.services.objects.snapshots import object_snapshot, snapshot
from chalicelib.services.ports import Clock, Measure, ignore_metric
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

STARTS_AND_ENDS = Selection(types=((NAME, "start"), (NAME, "job_complete")))


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """Timing of the feeds."""

    keep_alive_s: float = 15.0
    """Interval of keep-alive comments on an idle feed."""
    wait_complete_s: float = 5.0
    """How long after the end of a job its feed still shows its events. After that it shows only a summary."""
    expiration_s: float = 60.0
    """How long a client may resume an organization's feed after an event."""
    max_duration_s: float = float("inf")
    """Maximum duration of a response."""
    first_page_only: bool = False
    """Whether a response ends after the first events, and the client polls for more."""


class PushFeeds:
    """Reads push jobs and their feeds."""

    def __init__(
        self,
        reader: LogReader,
        retention: Retention,
        clock: Clock,
        settings: FeedSettings,
        measure: Measure = ignore_metric,
    ) -> None:
        self._reader = reader
        self._retention = retention
        self._clock = clock
        self._settings = settings
        self._measure = measure

    def job(self, server: int, job: str) -> State:
        """A job with all its nodes."""
        state = self._stored_job(server, job)
        if is_full_state(state):
            return state
        return object_snapshot(self._reader, server, ObjectRef(PUSH_JOB, f"/{job}")).state_of(f"/{job}")

    def jobs(self, server: int, limit: int, after: str = "") -> list[State]:
        """The latest jobs, newest first, without their nodes. Only those after a job, if its id is given."""
        position = None
        if after:
            ref = ObjectRef(PUSH_JOB, f"/{after}")
            position = summarize(ref, self._stored_job(server, after)).created_at or "", ref.path
        boundary = self._retention.boundary(server)
        latest = newest_objects(self._reader, boundary, server, PUSH_JOB, limit, position)
        return [
            {name: value for name, value in job.items() if name not in ("nodes", "has_failed_nodes")} for job in latest
        ]

    def job_events(self, server: int, job: str, last_id: str | None) -> Stream[str]:
        """The job's events until it ends, from its start or after `last_id`. Some time after the end, its summary."""
        state = self._stored_job(server, job)
        ended_us = timestamps.parse(state["updated_at"]) if has_ended(state) else None
        if ended_us is not None and self._now_us() - ended_us > self._settings.wait_complete_s * 1_000_000:
            return _single(sse_events.format_summary(self.job(server, job)))
        query = FeedQuery(server, _selection_of(job), formatter=sse_events.format_job_event)
        position = sse_events.parse_position("job", last_id)
        if position is not None and self._exists(query, position):
            if ended_us is not None and position.event_id >= ended_us:
                return _single("")  # The client has already seen the end of the job.
            query = replace(query, after=position.event_id)
        # A job that is over has no further events to wait for.
        return self._stream_job(query, 0.0 if ended_us is not None else self._settings.max_duration_s)

    def organization_events(self, server: int, last_id: str | None, after: int | None = None) -> Stream[str]:
        """Starts and ends of the organization's jobs: new ones, or all after `last_id` or `after`.

        If `last_id` is unknown or has expired, the stream begins with a notice and continues with the events that are
        left.
        """
        query = FeedQuery(server, STARTS_AND_ENDS, formatter=sse_events.format_organization_event)
        if not last_id:
            after = self._reader.log.head(server).last_event_id if after is None else after
            return self._stream_organization(replace(query, after=after), ())
        position = sse_events.parse_position("org", last_id)
        horizon_us = self._horizon_us(self._settings.expiration_s)
        if position is not None and position.at_us >= horizon_us and self._exists(query, position):
            return self._stream_organization(replace(query, after=position.event_id), (), position_us=position.at_us)
        after = max(horizon_us - 1, self._retention.boundary(server).event_id)
        return self._stream_organization(replace(query, after=after), (sse_events.format_start_of_history(horizon_us),))

    def _stored_job(self, server: int, job: str) -> State:
        """The job as the view stores it, which omits the nodes of a large job."""
        path = f"/{job}"
        states = snapshot(self._reader, server, PUSH_JOB, PathQuery((PathPattern(path),))).states
        if path not in states:
            raise NotFound(f"there is no push job '{job[:200]}'")
        return states[path]

    def _stream_job(self, query: FeedQuery, max_duration_s: float) -> Stream[str]:
        results = self._results(query, max_duration_s)
        while (seq := (yield from next_item(results))) is not END:
            match seq:
                case None:
                    yield sse.KEEPALIVE
                case NonEmpty(_, texts):
                    end = next((index for index, text in enumerate(texts) if sse_events.is_job_end(text)), None)
                    yield "".join(texts if end is None else texts[: end + 1])
                    if end is not None:
                        return
        if self._settings.first_page_only:
            yield sse.RETRY

    def _stream_organization(self, query: FeedQuery, notices: Iterable[str], position_us: int = 0) -> Stream[str]:
        yield from notices
        results = self._results(query, self._settings.max_duration_s)
        while (seq := (yield from next_item(results))) is not END:
            match seq:
                case None:
                    yield sse.KEEPALIVE
                case NonEmpty(event_id, texts):
                    position_us = event_id
                    yield "".join(texts)
                case Torn(event_id):
                    yield sse_events.format_start_of_history(event_id)
                    results = self._results(replace(query, after=event_id), self._settings.max_duration_s)
                case Empty(event_id) if position_us < self._horizon_us(self._settings.expiration_s / 2):
                    # Renew the client's position, or its last event would have expired when it reconnects.
                    yield sse.format_position(sse_events.position_id(event_id, self._now_us()))
        if self._settings.first_page_only:
            yield sse.RETRY

    def _results(self, query: FeedQuery, max_duration_s: float) -> Stream[EventSeq | None]:
        is_paged = self._settings.first_page_only
        return stream(
            replace(query, timeout_s=max_duration_s),
            self._reader,
            self._retention,
            heartbeat_s=None if is_paged else self._settings.keep_alive_s,
            first_page_only=is_paged,
            measure=self._measure,
        )

    def _exists(self, query: FeedQuery, position: sse_events.FeedPosition) -> bool:
        """Whether `position` is an event of this feed, or, if it is not an event, a position within the log."""
        if not position.is_event:
            return position.event_id <= self._reader.log.head(query.server).last_event_id
        query = replace(query, after=max(position.event_id - 1, 0), limit=1, formatter=_event_id)
        match run_without_waiting(long_poll(query, self._reader, self._retention)):
            case NonEmpty(_, [event_id]):
                return event_id == str(position.event_id)
        return False

    def _horizon_us(self, ago_s: float) -> int:
        return self._now_us() - int(ago_s * 1_000_000)

    def _now_us(self) -> int:
        return self._clock() * 1000


def _selection_of(job: str) -> Selection:
    return Selection(types=EVENT_TYPES, keys=(job_key(job),))


def _event_id(event: Event) -> str:
    return str(event.event_id)


def _single(text: str) -> Stream[str]:
    yield text
