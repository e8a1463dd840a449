"""Routes of observers: configuration, deliveries, retry and replay. Also the inbox of users."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chalice.app import Blueprint, Response
from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.errors import NotFound
from chalicelib.domain.notifications.observer import Configuration, Observer
from chalicelib.domain.notifications.read_marks import InboxStatus
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.http import delivery_responses, observer_parameters, parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.auth.access import LogContext
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.http.routes.feeds import feed
from chalicelib.services.notifications.inbox import MessageFormatter, user_messages
from chalicelib.services.notifications.permissions import Actor, ObserverPermissions
from chalicelib.services.notifications.registry import with_new_secret
from chalicelib.services.notifications.retry import retry_parked

routes = Blueprint(__name__)

MAX_OBSERVERS = 1_000
"""Limit of the observers in the response, unless the caller gives another."""


@routes.route("/observers", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Observers"}, query=observer_parameters.ObserversParameters)
@problems.handle_errors
def get_observers() -> Response:
    """The observers that the caller may see: all for admins, their own for other readers."""
    context = access.reader()
    params = requests.query(observer_parameters.ObserversParameters, context.request)
    observers = _permissions(context).visible_observers(context.server, _actor(context))
    following = sorted((one for one in observers if one.name > params.after), key=lambda one: one.name)
    page = _observers_page(context, following[: params.limit or MAX_OBSERVERS])
    has_more = len(page) < len(following)
    if params.limit is None and not params.after and not has_more:
        # A complete list has the order of creation.
        names = {observer.name: place for place, observer in enumerate(observers)}
        page.sort(key=lambda one: names[one["name"]])
    return responses.json_response({"observers": page, "moreFollows": has_more})


@routes.route("/observers/{name}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Observer"}, problems=(404,))
@problems.handle_errors
def get_observer(name: str) -> Response:
    """An observer and the number of its deliveries by state."""
    context = access.reader()
    return responses.json_response(observer_json(context, find_observer(context, name)))


@routes.route("/observers/{name}", methods=["PUT"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Observer", 201: "Observer"}, body=Configuration)
@problems.handle_errors
def put_observer(name: str) -> Response:
    """Configure an observer. A secret that the server has generated is only in this response."""
    context = access.reader()
    configuration = requests.body(Configuration, context.request)
    configuration = authorize_and_validate(context, name, configuration)
    complete = with_new_secret(configuration)
    notifications = context.components.notifications
    observer, is_new = notifications.observers.put(context.server, name, complete)
    if not is_new:
        # Its held messages are sent at the times that the new configuration says.
        notifications.calm.reschedule(context.server, name, context.components.clock() * 1000)
    content = observer_json(context, observer)
    if complete is not configuration:
        content["config"]["secret"] = complete.config["secret"]
    return responses.json_response(content, 201 if is_new else 200)


@routes.route("/observers/{name}", methods=["DELETE"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Deleted"}, problems=(404,))
@problems.handle_errors
def delete_observer(name: str) -> Response:
    """Delete an observer."""
    context = access.reader()
    find_observer(context, name)
    context.components.notifications.observers.delete(context.server, name)
    return responses.json_response({"deleted": name})


@routes.route("/observers/{name}/failures", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Failures"}, query=observer_parameters.FailuresParameters, problems=(404,))
@problems.handle_errors
def get_failures(name: str) -> Response:
    """Deliveries that failed and are not retried any more, with their errors."""
    context = access.reader()
    find_observer(context, name)
    params = requests.query(observer_parameters.FailuresParameters, context.request)
    parked = context.components.stores.outbox.parked(context.server, name, params.after, params.limit)
    return responses.failed_deliveries(parked)


@routes.route("/observers/{name}/deliveries", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "DeliveryHistory"}, query=observer_parameters.DeliveriesParameters, problems=(404,))
@problems.handle_errors
def get_observer_deliveries(name: str) -> Response:
    """The deliveries of an observer and their results, the newest first."""
    context = access.reader()
    observer = find_observer(context, name)
    params = requests.query(observer_parameters.DeliveriesParameters, context.request)
    history = context.components.notifications.history
    return delivery_responses.delivery_page(history.of_observer(context.server, observer, params.cursor, params.limit))


@routes.route("/deliveries", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "DeliveryHistory"}, query=observer_parameters.EventDeliveriesParameters, problems=(404,))
@problems.handle_errors
def get_deliveries() -> Response:
    """The deliveries about an event by all observers that the caller may see, ordered by observer."""
    context = access.reader()
    params = requests.query(observer_parameters.EventDeliveriesParameters, context.request)
    history = context.components.notifications.history
    event = params.event or history.find_event(context.server, params.event_id or 0)
    if event.server != context.server:
        raise NotFound(f"there is no event {event}")
    observers = _permissions(context).visible_observers(context.server, _actor(context))
    return delivery_responses.delivery_page(history.of_event(event, observers, params.cursor, params.limit))


@routes.route("/observers/{name}/retry", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Retried"}, optional_body=observer_parameters.RetryRequest, problems=(404,))
@problems.handle_errors
def post_retry(name: str) -> Response:
    """Retry failed deliveries: those with the given ids, or all."""
    context = access.reader()
    find_observer(context, name)
    ids = requests.optional_body(observer_parameters.RetryRequest, context.request).ids
    retried = retry_parked(context.components.stores.outbox, context.server, name, ids)
    return responses.json_response({"retried": retried})


@routes.route("/observers/{name}/replay", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Replayed"}, body=observer_parameters.ReplayRequest, problems=(404,))
@problems.handle_errors
def post_replay(name: str) -> Response:
    """Notify an observer again of the events after a position or a time.

    A replay runs in parts. Repeat the request with the values of the response until it is done.
    """
    context = access.reader()
    observer = find_observer(context, name)
    params = requests.body(observer_parameters.ReplayRequest, context.request)
    after = params.after if params.after is not None else max((params.since or 0) - 1, 0)
    replay = params.replay or secrets.token_urlsafe(6)
    progress = context.components.notifications.replayer.run(
        context.server, observer, after, params.until, replay, is_dry_run=params.dry_run
    )
    return responses.replay_progress(
        progress.replay, progress.event_id, progress.until, progress.deliveries, progress.is_done
    )


@routes.route("/users/{user}/inbox", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {}, query=parameters.FollowParameters, feed="InboxMessage")
@problems.handle_errors
def get_inbox(user: str) -> Response:
    """The messages in a user's inbox, and which of them are read."""
    context = access.user_or_admin(user)
    params = requests.query(parameters.FollowParameters, context.request)
    read_up_to = context.components.notifications.read_marks.read_up_to(context.server, user)
    inbox = replace(context, server=inbox_log(context.server))
    return feed(inbox, params, user_messages(user), MessageFormatter(read_up_to), {"readUpTo": read_up_to})


@routes.route("/users/{user}/inbox/unread", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "InboxStatus"})
@problems.handle_errors
def get_unread(user: str) -> Response:
    """The number of unread messages in a user's inbox."""
    context = access.user_or_admin(user)
    return _inbox_status(context.components.notifications.read_marks.status(context.server, user))


@routes.route("/users/{user}/inbox/read", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "InboxStatus"}, body=observer_parameters.ReadRequest)
@problems.handle_errors
def post_read(user: str) -> Response:
    """Mark the messages in a user's inbox up to an `eventId` as read. A mark never moves back."""
    context = access.user_or_admin(user)
    event_id = requests.body(observer_parameters.ReadRequest, context.request).event_id
    marks, by = context.components.notifications.read_marks, context.caller.user
    return _inbox_status(marks.mark(context.server, user, event_id, by))


def find_observer(context: LogContext, name: str) -> Observer:
    """An observer that the caller may see and change. Raises `NotFound` for any other."""
    return _permissions(context).get_observer(context.server, name, _actor(context))


def observer_json(context: LogContext, observer: Observer) -> dict[str, Any]:
    """An observer with the number of its deliveries by state, and the end of its snooze."""
    members, end_us = observer.json, observer.snoozes[-1][1] if observer.snoozes else 0
    if end_us > context.components.clock() * 1000:
        members["snoozedUntil"] = timestamps.iso(end_us)
    return {**members, "deliveries": context.components.stores.outbox.counts(context.server, observer.name)}


def authorize_and_validate(context: LogContext, name: str, configuration: Configuration) -> Configuration:
    """Return the configuration with its user and stored secrets; raise if it is not allowed or not usable."""
    from chalicelib.wiring.notifications import build_validator  # noqa: PLC0415  (loading Jinja2 takes long)

    authorized = _permissions(context).authorize(context.server, name, configuration, _actor(context))
    complete = context.components.notifications.observers.with_stored_secrets(context.server, name, authorized)
    build_validator(context.components.settings).check(complete)
    return complete


def _inbox_status(status: InboxStatus) -> Response:
    return responses.json_response(
        {"readUpTo": status.read_up_to, "unread": status.unread, "moreFollows": status.has_more}
    )


def _permissions(context: LogContext) -> ObserverPermissions:
    return ObserverPermissions(context.components.notifications.observers)


def _actor(context: LogContext) -> Actor:
    return Actor(context.caller.user, context.caller.is_admin(context.components.settings.groups))


def _observers_page(context: LogContext, observers: Sequence[Observer]) -> list[dict[str, Any]]:
    """The first of the observers, as many as fit in a response."""
    page, size_bytes, page_size = list[dict[str, Any]](), 0, context.components.log.reader.page_size
    for observer in observers:
        if size_bytes > page_size.max_bytes:
            break
        page.append(observer_json(context, observer))
        size_bytes += page_size.measure([to_json(page[-1]).decode()])
    return page
