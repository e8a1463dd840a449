"""Feeds as answers: one JSON document, lines of it, or server-sent events; at once, or as they come."""

from dataclasses import replace

from chalice.app import Response

from chalicelib.domain import sse
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import EventSeq
from chalicelib.http import parameters, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import LAST_S, Caller
from chalicelib.services.feeds.feed import FeedQuery, following, stream
from chalicelib.services.feeds.suspension import Reading, Stream, mapped, pieces, until, waited
from chalicelib.services.reading.scan import Form
from chalicelib.wiring import annals

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"


def feed(wanted: parameters.FollowParameters, server: int, selection: Selection, form: Form | None = None) -> Response:
    """What was asked of a feed, in the format that the client prefers."""
    parts = annals()
    query = FeedQuery(
        server,
        selection,
        wanted.after,
        wanted.limit,
        timeout_s=min(wanted.timeout, longest_s()),
        delay_s=min(wanted.delay, longest_s()),
        oldest=None if wanted.torn_older is None else parts.clock() * 1000 - int(min(wanted.torn_older, 1e9) * 1e6),
        form=form,
    )
    match requests.preferred(authorizer.request(), JSON, NDJSON, EVENT_STREAM):
        case "application/x-ndjson":
            is_page = not parts.settings.streams
            answers = stream(query, parts.present, parts.retention, wanted.heartbeat, is_page, measure=parts.measure)
            return streamed(mapped(answers, responses.lines), responses.NDJSON)
        case "text/event-stream":
            return _server_sent(wanted, query)
        case _:
            return polled(following(query, parts.present, parts.retention, measure=parts.measure))


def _server_sent(wanted: parameters.FollowParameters, query: FeedQuery) -> Response:
    """The feed as server-sent events: it stays open unless a timeout is given."""
    parts, is_page = annals(), not annals().settings.streams
    after = parameters.resumed(wanted, requests.last_event_id(authorizer.request()))
    longest_s = parts.settings.longest_poll_s if is_page else float("inf")
    timeout_s = min(wanted.timeout, longest_s) if "timeout" in wanted.model_fields_set else longest_s
    query = replace(query, after=after, timeout_s=timeout_s, frame=sse.frame)
    heartbeat_s = None if is_page else wanted.heartbeat or parts.settings.keep_alive_s
    answers = stream(query, parts.present, parts.retention, heartbeat_s, is_page, measure=parts.measure)
    return streamed(mapped(answers, lambda seq: responses.server_sent(seq, after or 0, is_page)), responses.SSE)


def polled(reading: Reading[EventSeq]) -> Response:
    """The feed's answer, when there is one; the embedded server needs no thread to wait for it."""
    if annals().settings.streams:
        return responses.Stepwise(_answer(reading))
    return responses.event_seq(waited(reading, annals().wake))


def _answer(reading: Reading[EventSeq]) -> Reading[Response]:
    return responses.event_seq((yield from reading))


def streamed(stream: Stream[str], headers: responses.Headers) -> Response:
    """The stream, sent as it comes if that can be done; it ends with the token of whoever asked for it."""
    stream = until(stream, _left_s())
    if annals().settings.streams:
        return responses.Stepwise(stream, headers)
    return Response("".join(pieces(stream, annals().wake)), headers, 200)


def longest_s() -> float:
    """How long whoever asks may be kept waiting: as long as polls may take, and their token is good."""
    return min(annals().settings.longest_poll_s, _left_s())


def _left_s() -> float:
    """How long the caller's token is good."""
    expires_s = min(Caller.of(authorizer.request()).expires_s, LAST_S)
    return max(expires_s - annals().clock() / 1000, 0.0)
