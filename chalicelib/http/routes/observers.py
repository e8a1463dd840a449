"""Routes of observers: configure, watch, retry, replay; and the inbox of users."""

import secrets
from typing import Any

from chalice.app import Blueprint, Response

from chalicelib.domain.errors import BadInput, Forbidden, NotFound
from chalicelib.domain.notifications.observer import Configuration, Observer, name_checked
from chalicelib.domain.organizations.organization import inbox_of
from chalicelib.http import observer_parameters, parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.http.routes.feeds import feed
from chalicelib.services.notifications.inbox import message_text, of_user
from chalicelib.wiring import annals

routes = Blueprint(__name__)

MOST_OWN = 100
"""So many observers a user may have of their own: each of them is asked about every event."""


@routes.route("/observers", methods=["GET"], **authorizer.MEMBERS)
@described("observers", {200: "Observers"}, query=parameters.NoParameters)
@problems.answered
def get_observers() -> Response:
    """The observers that the caller may see: admins all, others their own."""
    caller, server = reader()
    requests.query(parameters.NoParameters, authorizer.request())
    found = annals().observers.of(server).observers.values()
    return responses.plain({"observers": [_shown(one, server) for one in found if _may_see(caller, one)]})


@routes.route("/observers/{name}", methods=["GET"], **authorizer.MEMBERS)
@described("observers", {200: "Observer"}, refusals=(404,))
@problems.answered
def get_observer(name: str) -> Response:
    """One observer, with what becomes of its deliveries."""
    _, server, observer = _observer(name)
    return responses.plain(_shown(observer, server))


@routes.route("/observers/{name}", methods=["PUT"], **authorizer.MEMBERS)
@described("observers", {200: "Observer", 201: "Observer"}, body=Configuration)
@problems.answered
def put_observer(name: str) -> Response:
    """Configure an observer."""
    caller, server = reader()
    wanted = requests.body(Configuration, authorizer.request())
    configuration = configurable(caller, server, name, wanted)
    observer, is_new = annals().observers.put(server, name, configuration)
    return responses.plain(_shown(observer, server), 201 if is_new else 200)


@routes.route("/observers/{name}", methods=["DELETE"], **authorizer.MEMBERS)
@described("observers", {200: "Deleted"}, refusals=(404,))
@problems.answered
def delete_observer(name: str) -> Response:
    """End an observer."""
    _, server, _ = _observer(name)
    annals().observers.delete(server, name)
    return responses.plain({"deleted": name})


@routes.route("/observers/{name}/failures", methods=["GET"], **authorizer.MEMBERS)
@described("observers", {200: "Failures"}, query=observer_parameters.FailuresParameters, refusals=(404,))
@problems.answered
def get_failures(name: str) -> Response:
    """Deliveries that nobody tries any more, and why."""
    _, server, _ = _observer(name)
    wanted = requests.query(observer_parameters.FailuresParameters, authorizer.request())
    return responses.failures(annals().outbox.parked(server, name, wanted.after, wanted.limit))


@routes.route("/observers/{name}/retry", methods=["POST"], **authorizer.MEMBERS)
@described("observers", {200: "Retried"}, body_or_nothing=observer_parameters.RetryRequest, refusals=(404,))
@problems.answered
def post_retry(name: str) -> Response:
    """Try failed deliveries again: those named, or all."""
    _, server, _ = _observer(name)
    wanted = requests.body_or_nothing(observer_parameters.RetryRequest, authorizer.request())
    outbox = annals().outbox
    if wanted.ids is not None:
        return responses.plain({"retried": outbox.retry(server, name, wanted.ids)})
    retried, after = 0, ""
    while some := [one.delivery.id for one in outbox.parked(server, name, after, 1_000)]:
        retried, after = retried + outbox.retry(server, name, some), some[-1]
    return responses.plain({"retried": retried})


@routes.route("/observers/{name}/replay", methods=["POST"], **authorizer.MEMBERS)
@described("observers", {200: "Replayed"}, body=observer_parameters.ReplayRequest, refusals=(404,))
@problems.answered
def post_replay(name: str) -> Response:
    """Tell an observer again what came after a position or a time; in parts, each says how far it came."""
    _, server, observer = _observer(name)
    wanted = requests.body(observer_parameters.ReplayRequest, authorizer.request())
    after = wanted.after if wanted.after is not None else max((wanted.since or 0) - 1, 0)
    replay = wanted.replay or secrets.token_urlsafe(6)
    done = annals().replaying.run(server, observer, after, wanted.until, replay)
    return responses.replayed(done.replay, done.event_id, done.until, done.deliveries, done.is_done)


@routes.route("/users/{user}/inbox", methods=["GET"], **authorizer.MEMBERS)
@described("observers", {}, query=parameters.FollowParameters, feed="InboxMessage")
@problems.answered
def get_inbox(user: str) -> Response:
    """What a user was told in the app."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request)
    organization = caller.organization()
    if caller.user != user:
        caller.admin(parts.settings.groups)
    server = parts.organizations.server(organization)
    wanted = requests.query(parameters.FollowParameters, request)
    return feed(wanted, inbox_of(server), of_user(user), message_text)


def reader() -> tuple[Caller, int]:
    """Whoever may read may have observers of their own."""
    parts = annals()
    caller = Caller.of(authorizer.request())
    caller.reader(parts.settings.groups)
    return caller, parts.organizations.server(caller.organization())


def configurable(caller: Caller, server: int, name: str, wanted: Configuration) -> Configuration:
    """The configuration with its user, if the caller may configure the observer so, and it can tell something."""
    there = annals().observers.of(server).observers.get(name_checked(name))
    if there is not None and not _may_see(caller, there):
        raise Forbidden(f"the observer '{name}' belongs to somebody else")
    from chalicelib.wiring.notifications import check_observer  # noqa: PLC0415  (templates take long to load)

    configuration = _own(caller, wanted)
    if there is None:
        _check_number(server, configuration)
    check_observer(configuration, annals().settings)
    return configuration


def existing(name: str) -> tuple[int, Observer]:
    """The log, and an observer that the caller may see and change."""
    _, server, observer = _observer(name)
    return server, observer


def _observer(name: str) -> tuple[Caller, int, Observer]:
    """An observer that the caller may see and change."""
    caller, server = reader()
    observer = annals().observers.one(server, name)
    if not _may_see(caller, observer):
        raise NotFound(f"there is no observer '{name[:100]}'")
    return caller, server, observer


def _may_see(caller: Caller, observer: Observer) -> bool:
    is_own = observer.is_private and observer.configuration.user == caller.user
    return is_own or caller.is_admin(annals().settings.groups)


def _own(caller: Caller, wanted: Configuration) -> Configuration:
    """The configuration with its user; what is for others is for admins to configure."""
    groups = annals().settings.groups
    if wanted.scope == "global":
        caller.admin(groups)
        return wanted
    user = wanted.user or caller.user
    if user != caller.user:
        caller.admin(groups)
    if wanted.channel == "app" and "to" in wanted.config:
        raise BadInput("config.to: a private observer of the app tells its own user")
    return wanted.model_copy(update={"user": user})


def _check_number(server: int, new: Configuration) -> None:
    """Refuse one more to a user who has many."""
    own = [one for one in annals().observers.of(server).observers.values() if one.is_private]
    if new.scope == "private" and sum(one.configuration.user == new.user for one in own) >= MOST_OWN:
        raise BadInput(f"a user has at most {MOST_OWN} observers of their own")


def _shown(observer: Observer, server: int) -> dict[str, Any]:
    return {**observer.json, "deliveries": annals().outbox.counts(server, observer.name)}
