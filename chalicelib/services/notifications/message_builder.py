"""Messages: what an observer has to say about an event, in the words of its templates."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic_core import from_json

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.events.event import Event, Stored
from chalicelib.domain.notifications.delivery import (
    PARTS,
    AppMessage,
    Channel,
    Delivery,
    Dropped,
    Mail,
    Message,
    SlackPost,
)
from chalicelib.domain.notifications.observer import Configured, Observer
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.vocabularies.job.events import EVENTS, JOB, OF_JOB
from chalicelib.services.objects.snapshots import state_at
from chalicelib.services.reading.log_reader import LogReader

Scope = dict[str, Any]
LONGEST_TIME_FORMAT = 100
"""Characters: with every line of a log a time is written."""
_LONGEST_TIME = 200
_FALSE = ("", "0", "false", False, 0, None)
_LINKS = ("https://", "http://", "file:///")
"""What a link of somebody's event may lead to: pages, but nothing that runs, and no file of another machine."""


class Templates(Protocol):
    """What renders templates; raises `Undeliverable` if that cannot be done."""

    def render(self, channel: Channel, name: str, part: str, scope: Mapping[str, Any]) -> str:
        """The part of a message about an event called `name`."""

    def expression(self, text: str, scope: Mapping[str, Any]) -> bool:
        """Whether the expression holds."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What observers that do not say otherwise do."""

    mail_from: str = ""
    mail_title: str = "AnyJob"
    time_format: str = "%Y-%m-%d %H:%M:%S %Z"
    time_zone: str = "UTC"
    public_url: str = ""
    """Where people find the API; links begin with it."""


class Messages:
    """Makes messages of events."""

    def __init__(self, templates: Templates, present: LogReader, defaults: Defaults) -> None:
        self._templates = templates
        self._present = present
        self._defaults = defaults

    def message(
        self, delivery: Delivery, event: Event, observer: Observer, configured: Configured
    ) -> Message | Dropped:
        """What is to be told, unless the event or the observer says that it is not."""
        own = self._completed(event, own_fields(event))
        job = _job_configuration(own, configured)
        dropped = self._dropped(own, observer, job)
        if dropped is not None:
            return Dropped(dropped)
        scope = self._scope(event, own, observer, job)
        return self._made(delivery, observer, _name(event, own), scope)

    def preview(
        self, delivery: Delivery, event: Event, observer: Observer, configured: Configured
    ) -> tuple[str | None, Message]:
        """Why nothing would be told, if so, and what would be told all the same."""
        own = self._completed(event, own_fields(event))
        job = _job_configuration(own, configured)
        dropped = self._dropped(own, observer, job)
        scope = self._scope(event, own, observer, job)
        return dropped, self._made(delivery, observer, _name(event, own), scope)

    def _completed(self, event: Event, own: Scope) -> Scope:
        """The event's own fields; what a redirect leaves out, its job says."""
        if own.get("event") != "redirect" or ("type" in own and "props" in own):
            return own
        ref = ObjectRef(JOB, f"/{own['id']}")
        state = state_at(self._present, event.id.server, ref, event.event_id) or {}
        said = {name: state[name] for name in ("type", "params", "props") if state.get(name) is not None}
        return {**said, **own}

    def _dropped(self, own: Scope, observer: Observer, job: Scope) -> str | None:
        """Why nobody is to be told; in this order, for an expression may fail where it needs not be asked."""
        configuration = observer.configuration
        if not observer.is_private and _is_set("silent", own, job):
            return "silent"
        if configuration.filter and not self._templates.expression(configuration.filter, {"event": own}):
            return "filtered"
        if configuration.channel in ("mail", "slack") and _is_set(f"no{configuration.channel}", own, job):
            return f"no{configuration.channel}"
        is_progress = own.get("event") in ("progress", "progressJobSet")
        wants_progress = configuration.config.get("mail_progress") not in _FALSE or _is_set("mail_progress", own, job)
        if configuration.channel == "mail" and is_progress and not wants_progress:
            return "progress"
        return None

    def _scope(self, event: Event, own: Scope, observer: Observer, job: Scope) -> Scope:
        if _name(event, own) == "default":
            core = from_json(event.wire)
            scope = {**core, "event": core}
        else:
            scope = {name: value for name, value in own.items() if name != "eventId"}
        scope["link"] = _link_of_report(event) or self._link(own)
        if "type" in own and own.get("event") in EVENTS:
            scope["job"] = job
        if not observer.is_private:
            scope["config"] = {k: v for k, v in observer.configuration.config.items() if k != "url"}
        if own.get("event") == "finish":
            scope |= self._result(event, own)
        return self._with_times(scope, observer) if observer.configuration.channel == "mail" else scope

    def _result(self, event: Event, own: Scope) -> Scope:
        """How long the job took, and what it logged."""
        ref = ObjectRef(JOB, f"/{own['id']}")
        state = state_at(self._present, event.id.server, ref, event.event_id) or {}
        found: Scope = {"log": list(state.get("logs") or [])}
        if "seconds" in state:
            found["duration"] = round(state["seconds"])
        return found

    def _with_times(self, scope: Scope, observer: Observer) -> Scope:
        """The scope with its times as people read them."""
        config = observer.configuration.config
        zone = time_zone(str(config.get("time_zone") or self._defaults.time_zone))
        form = time_format(str(config.get("time_format") or self._defaults.time_format))

        def read(time: Any) -> Any:
            try:
                return datetime.fromtimestamp(time, UTC).astimezone(zone).strftime(form)[:_LONGEST_TIME]
            except (TypeError, ValueError, OverflowError, OSError):
                return time  # no time, or one that no calendar knows

        formatted = dict(scope)
        if "time" in scope:
            formatted["time"] = read(scope["time"])
        match scope.get("log"):
            case dict(line):
                formatted["log"] = {**line, "time": read(line.get("time"))}
            case list(lines):
                formatted["log"] = [{**line, "time": read(line.get("time"))} for line in lines]
        return formatted

    def _link(self, own: Scope) -> str:
        name = own.get("event")
        if not self._defaults.public_url or name not in EVENTS:
            return ""
        return f"{self._defaults.public_url.rstrip('/')}/{'jobs' if name in OF_JOB else 'jobsets'}/{own['id']}"

    def _made(self, delivery: Delivery, observer: Observer, name: str, scope: Scope) -> Message:
        channel, config = observer.configuration.channel, observer.configuration.config
        parts = {part: self._templates.render(channel, name, part, scope) for part in PARTS[channel]}
        match channel:
            case "mail":
                sender = str(config.get("from") or self._defaults.mail_from)
                if not sender or not delivery.address:
                    raise Undeliverable("No origin or destination address")
                title = str(config.get("title") or self._defaults.mail_title)
                return Mail(delivery.id, sender, title, delivery.address, **parts)
            case "slack":
                if not config.get("url"):
                    raise Undeliverable("No destination URL")
                return SlackPost(delivery.id, str(config["url"]), parts["json"])
            case _:
                user = delivery.address or observer.configuration.user or ""
                if not user:
                    raise Undeliverable("No user to tell")
                return AppMessage(
                    delivery.id, delivery.server, user, observer.name, parts["subject"], parts["body"], delivery.event
                )


def own_fields(event: Event) -> Scope:
    """The event in its vocabulary's own JSON, as a core event if it has none."""
    fields: Scope = from_json(vocabularies.own_text(event))
    return fields


def _name(event: Event, own: Scope) -> str:
    """Which templates are about the event."""
    return str(own["event"]) if event.stored.type[:1] in (("job",), ("jobset",)) and "event" in own else "default"


def _link_of_report(event: Event) -> str:
    """Where a report is that has become ready; nothing if the event is another, or its link is none for a reader."""
    match event.stored:
        case Stored(("report", "ready", *_), payload={"data": {"link": str(link)}}) if link.startswith(_LINKS):
            return link
        case _:
            return ""


def _job_configuration(own: Scope, configured: Configured) -> Scope:
    job_type = own.get("type")
    return dict(configured.jobs.get(job_type) or {}) if isinstance(job_type, str) else {}


def _is_set(name: str, own: Scope, job: Scope) -> bool:
    """Whether the event's property says so; if it has none, the configuration of its job."""
    props = own.get("props")
    found = props[name] if isinstance(props, dict) and name in props else job.get(name)
    return found not in _FALSE


def time_zone(name: str) -> ZoneInfo:
    """The time zone called `name`; raises `Undeliverable` if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as failure:
        raise Undeliverable(f"time_zone: there is no time zone '{name[:80]}'") from failure


def time_format(text: str) -> str:
    """`text` itself, if times may be written so; raises `Undeliverable` if it is too long."""
    if len(text) > LONGEST_TIME_FORMAT:
        raise Undeliverable(f"time_format: it is longer than {LONGEST_TIME_FORMAT} characters")
    return text
