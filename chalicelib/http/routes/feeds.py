"""Feeds as responses: one JSON document, NDJSON or server-sent events.

The embedded server streams them without a thread per client. Behind API Gateway a stream is one page.
"""

from collections.abc import Mapping
from dataclasses import replace

from chalice.app import Response

from chalicelib.domain import sse
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import EventSeq
from chalicelib.http import parameters, requests, responses
from chalicelib.http.auth.access import Context, LogContext
from chalicelib.http.auth.caller import MAX_EXPIRY_S
from chalicelib.http.auth.tokens import LEEWAY_S
from chalicelib.services.feeds.feed import FeedQuery, long_poll, stream
from chalicelib.services.feeds.suspension import (
    Stream,
    SuspendableRead,
    iterate,
    map_stream,
    run_blocking,
    with_deadline,
)
from chalicelib.services.reading.scan import EventFormatter

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"


def feed(
    context: LogContext,
    params: parameters.FollowParameters,
    selection: Selection,
    formatter: EventFormatter | None = None,
    facts: Mapping[str, int] | None = None,
) -> Response:
    """The feed of the context's log in the format that the client prefers. An EventSeq also has the `facts`."""
    log, measure = context.components.log, context.components.measure
    preferred_type = requests.preferred_type(context.request, JSON, NDJSON, EVENT_STREAM)
    is_resumed = preferred_type == EVENT_STREAM and requests.last_event_id(context.request) is not None
    if params.after_position is not None and not is_resumed:
        after = log.reader.event_id_at(context.server, params.after_position)
        params = params.model_copy(update={"after": after})
    query = FeedQuery(
        context.server,
        selection,
        params.after,
        params.limit,
        before=params.before,
        timeout_s=min(params.timeout, max_wait_s(context)),
        delay_s=min(params.delay, max_wait_s(context)),
        torn_before_us=_oldest_us(context, params),
        formatter=formatter,
    )
    match preferred_type:
        case "application/x-ndjson":
            is_page = not context.components.settings.streams
            pages = stream(query, log.reader, log.retention, params.heartbeat, is_page, measure=measure)
            return stream_response(context, map_stream(pages, responses.ndjson_lines), responses.NDJSON)
        case "text/event-stream":
            return _sse_feed(context, params, query)
        case _:
            reading = long_poll(query, log.reader, log.retention, measure=measure)
            return poll_response(context, reading, is_core=formatter is None, facts=facts)


def _oldest_us(context: LogContext, params: parameters.FollowParameters) -> int | None:
    if params.torn_older is None:
        return None
    return context.components.clock() * 1000 - int(min(params.torn_older, 1e9) * 1e6)


def _sse_feed(context: LogContext, params: parameters.FollowParameters, query: FeedQuery) -> Response:
    """The feed as server-sent events. It stays open unless the query has a timeout."""
    log, settings = context.components.log, context.components.settings
    is_page = not settings.streams
    after = parameters.resume_position(params, requests.last_event_id(context.request))
    max_timeout_s = settings.max_poll_s if is_page else float("inf")
    has_timeout = "timeout" in params.model_fields_set
    timeout_s = min(params.timeout, max_timeout_s) if has_timeout else max_timeout_s
    query = replace(query, after=after, timeout_s=timeout_s, wire_formatter=sse.format_event)
    heartbeat_s = None if is_page else params.heartbeat or settings.keep_alive_s
    pages = stream(query, log.reader, log.retention, heartbeat_s, is_page, measure=context.components.measure)
    texts = map_stream(pages, lambda seq: responses.sse_text(seq, after or 0, is_page))
    return stream_response(context, texts, responses.SSE)


def poll_response(
    context: Context,
    reading: SuspendableRead[EventSeq],
    is_core: bool = False,
    facts: Mapping[str, int] | None = None,
) -> Response:
    """The result of a long poll. The embedded server suspends it and needs no thread while it waits."""
    if context.components.settings.streams:
        return responses.SuspendableResponse(_event_seq_response(reading, is_core, facts))
    return responses.event_seq(run_blocking(reading, context.components.log.notifier), is_core, facts)


def _event_seq_response(
    reading: SuspendableRead[EventSeq], is_core: bool, facts: Mapping[str, int] | None
) -> SuspendableRead[Response]:
    return responses.event_seq((yield from reading), is_core, facts)


def stream_response(context: Context, stream: Stream[str], headers: responses.Headers) -> Response:
    """The stream, sent piece by piece if the server can. It ends when the caller's token expires."""
    stream = with_deadline(stream, _token_lifetime_s(context))
    if context.components.settings.streams:
        return responses.SuspendableResponse(stream, headers)
    return Response("".join(iterate(stream, context.components.log.notifier)), headers, 200)


def max_wait_s(context: Context) -> float:
    """How long a poll may wait: not longer than configured, nor than the caller's token is valid."""
    return min(context.components.settings.max_poll_s, _token_lifetime_s(context))


def _token_lifetime_s(context: Context) -> float:
    # As long as the token is accepted. Otherwise its last polls would return at once, and clients would repeat them.
    expires_s = min(context.caller.expires_s, MAX_EXPIRY_S) + LEEWAY_S
    return max(expires_s - context.components.clock() / 1000, 0.0)
