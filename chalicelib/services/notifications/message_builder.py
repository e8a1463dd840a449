"""Builds the message of an observer about an event, using the templates of the observer's channel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic_core import from_json

from chalicelib.domain import vocabularies
from chalicelib.domain.calm.outcomes import outcome_of
from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.events.event import Event, EventFields
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.alert import alert_of
from chalicelib.domain.notifications.delivery import (
    MESSAGE_PARTS,
    AppMessage,
    AppriseMessage,
    Delivery,
    Dropped,
    Mail,
    Message,
    SlackPost,
    TemplateChannel,
)
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.domain.notifications.secret_fields import NOT_IN_TEMPLATES, apprise_urls
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.vocabularies.job.events import EVENT_NAMES, JOB, JOB_EVENTS
from chalicelib.services.notifications.event_messages import build_event_message
from chalicelib.services.notifications.messages.alarm_scope import ALARM_KINDS, alarm_place, alarm_scope, template_of
from chalicelib.services.notifications.messages.job_type_facts import ReadJobType, job_type_facts, no_job_types
from chalicelib.services.notifications.messages.times import MessageTimes
from chalicelib.services.objects.snapshots import state_at
from chalicelib.services.reading.log_reader import LogReader

Scope = dict[str, Any]
"""The variables of a template."""
MAX_TIME_FORMAT_CHARS = 100
"""Limited because the format is applied to every line of a job log."""
_NAMES_WITH_JOB_TYPE = ("finish", "clean", *ALARM_KINDS)
"""Names of templates with the variable `job_type`."""
_FALSE_VALUES = ("", "0", "false", False, 0, None)
_LINK_PREFIXES = ("https://", "http://", "file:///")
"""Allowed starts of a link in a report event: no scripts, and no files of another machine."""


class Renderer(Protocol):
    """Renders templates and evaluates filters. Both raise `Undeliverable` on failure."""

    def render(self, channel: TemplateChannel, name: str, part: str, scope: Mapping[str, Any]) -> str:
        """Render one part of a message, such as its subject, about an event called `name`."""

    def evaluate_filter(self, text: str, scope: Mapping[str, Any]) -> bool: ...


@dataclass(frozen=True, slots=True)
class MessageDefaults:
    """Settings for observers that do not configure their own."""

    mail_from: str = ""
    mail_title: str = "Annals"
    time_format: str = "%Y-%m-%d %H:%M:%S %Z"
    time_zone: str = "UTC"
    public_url: str = ""
    """URL of the console. Without it messages contain no links to jobs."""


class MessageBuilder:
    """Builds messages from events."""

    def __init__(
        self,
        renderer: Renderer,
        reader: LogReader,
        organization_name: Callable[[int], str | None],
        defaults: MessageDefaults,
        read_job_type: ReadJobType = no_job_types,
    ) -> None:
        """`organization_name` returns the name of the organization whose log has a number."""
        self._read_job_type = read_job_type
        self._renderer = renderer
        self._reader = reader
        self._organization_name = organization_name
        self._defaults = defaults

    def build(
        self, delivery: Delivery, event: Event, observer: Observer, configured: ConfigurationState
    ) -> Message | Dropped:
        """Build the message, or return why the event or the observer suppresses it."""
        if delivery.count > 1:
            return self._digest(delivery, event, observer, configured)
        fields = self._with_job_fields(event, event_fields(event))
        job = _job_settings(fields, configured)
        drop_reason = self._drop_reason(fields, observer, job)
        if drop_reason is not None:
            return Dropped(drop_reason)
        return self._message(delivery, event, fields, observer, job)

    def drop_reason(self, event: Event, observer: Observer, configured: ConfigurationState) -> str | None:
        """Why the event or the observer suppresses the message, or None. Raises `Undeliverable` if the filter fails."""
        fields = self._with_job_fields(event, event_fields(event))
        return self._drop_reason(fields, observer, _job_settings(fields, configured))

    def preview(
        self, delivery: Delivery, event: Event, observer: Observer, configured: ConfigurationState
    ) -> tuple[str | None, Message]:
        """Build the message even if it would be suppressed, and return the reason for that, if any."""
        fields = self._with_job_fields(event, event_fields(event))
        job = _job_settings(fields, configured)
        drop_reason = self._drop_reason(fields, observer, job)
        return drop_reason, self._message(delivery, event, fields, observer, job)

    def _with_job_fields(self, event: Event, fields: Scope) -> Scope:
        """A redirect takes the type, params and props that it lacks from its job."""
        if fields.get("event") != "redirect" or ("type" in fields and "props" in fields):
            return fields
        ref = ObjectRef(JOB, f"/{fields['id']}")
        state = state_at(self._reader, event.id.server, ref, event.event_id) or {}
        job_fields = {name: state[name] for name in ("type", "params", "props") if state.get(name) is not None}
        return {**job_fields, **fields}

    def _drop_reason(self, fields: Scope, observer: Observer, job: Scope) -> str | None:
        """The order matters: a filter that would fail is not evaluated for a silent event."""
        configuration = observer.configuration
        if not observer.is_private and _is_set("silent", fields, job):
            return "silent"
        if configuration.filter and not self._renderer.evaluate_filter(configuration.filter, {"event": fields}):
            return "filtered"
        if configuration.channel in ("mail", "slack") and _is_set(f"no{configuration.channel}", fields, job):
            return f"no{configuration.channel}"
        is_progress = fields.get("event") in ("progress", "progressJobSet")
        mails_progress = configuration.config.get("mail_progress") not in _FALSE_VALUES or _is_set(
            "mail_progress", fields, job
        )
        if configuration.channel == "mail" and is_progress and not mails_progress:
            return "progress"
        return None

    def _scope(self, event: Event, fields: Scope, observer: Observer, job: Scope) -> Scope:
        name = _template_name(event, fields)
        if name == "default":
            core = from_json(event.wire_text)
            scope = {**core, "event": core}
        elif template_of(event) is not None:
            scope = {**alarm_scope(event, self._times(observer)), "event": fields}
        else:
            scope = {name: value for name, value in fields.items() if name != "eventId"}
        scope["link"] = self._link(event, fields)
        job_type = scope.get("type")
        if name in _NAMES_WITH_JOB_TYPE and isinstance(job_type, str):
            statistics = self._read_job_type(event.id.server, job_type)
            facts = statistics and job_type_facts(statistics, event.at_us, self._times(observer))
            scope |= {"job_type": facts} if facts else {}
        if "type" in fields and fields.get("event") in EVENT_NAMES:
            scope["job"] = job
        if not observer.is_private:
            scope["config"] = _public_config(observer)
        if fields.get("event") == "finish":
            scope |= self._job_result(event, fields)
        return self._with_formatted_times(scope, observer) if observer.configuration.channel == "mail" else scope

    def _digest(self, delivery: Delivery, event: Event, observer: Observer, configured: ConfigurationState) -> Message:
        """The message about several events, of which `event` is the first."""
        channel = observer.configuration.channel
        if channel == "webhook" or channel == "eventbridge":  # noqa: PLR1714  (mypy narrows the type by this form only)
            fields = self._with_job_fields(event, event_fields(event))
            return self._event_message(delivery, event, fields, observer, self._last_event(delivery) or event)
        scope = self._digest_scope(delivery, observer, configured)
        if channel == "apprise":
            parts = self._render("app", "digest", scope)
            return AppriseMessage(
                delivery.id, _apprise_url(delivery, observer), **parts, is_failure=scope["has_failures"]
            )
        return self._text_message(delivery, observer, channel, self._render(channel, "digest", scope))

    def _digest_scope(self, delivery: Delivery, observer: Observer, configured: ConfigurationState) -> Scope:
        """The number of events, and the headlines of the first ones that are still stored."""
        events = [event for sample in delivery.samples if (event := self._stored_event(sample)) is not None]
        samples = []
        for event in events:
            fields = self._with_job_fields(event, event_fields(event))
            scope = self._scope(event, fields, observer, _job_settings(fields, configured))
            headline = self._renderer.render("app", _template_name(event, fields), "subject", scope)
            samples.append({"subject": headline, "link": scope["link"], "time": event.at_us // 1_000_000})
        digest: Scope = {
            "count": delivery.count,
            "samples": samples,
            "until": delivery.until // 1_000_000,
            "has_failures": any(outcome_of(event.fields) == "failure" for event in events),
            "link": samples[0]["link"],
        }
        if not observer.is_private:
            digest["config"] = _public_config(observer)
        return self._with_formatted_times(digest, observer) if observer.configuration.channel == "mail" else digest

    def _stored_event(self, event_id: Id) -> Event | None:
        commit = self._reader.log.commit(event_id.server, event_id.session)
        return None if commit is None else commit.events[event_id.instance - 1]

    def _last_event(self, delivery: Delivery) -> Event | None:
        """The last of several events. None if it is no longer stored."""
        before = self._reader.position_at(delivery.server, delivery.until - 1)
        events = (event for commit in self._reader.tail(before, 1) for event in commit.events)
        return next((event for event in events if event.event_id == delivery.until), None)

    def _job_result(self, event: Event, fields: Scope) -> Scope:
        """The job's log and its duration in seconds."""
        ref = ObjectRef(JOB, f"/{fields['id']}")
        state = state_at(self._reader, event.id.server, ref, event.event_id) or {}
        result: Scope = {"log": list(state.get("logs") or [])}
        if "seconds" in state:
            result["duration"] = round(state["seconds"])
        return result

    def _with_formatted_times(self, scope: Scope, observer: Observer) -> Scope:
        times = self._times(observer)

        def format_time(time: Any) -> Any:
            try:
                return times.text_of_seconds(time)
            except (TypeError, ValueError, OverflowError, OSError):
                return time  # Not a number, or outside the years that datetime supports.

        formatted = dict(scope)
        for name in ("time", "until"):
            if name in scope:
                formatted[name] = format_time(scope[name])
        if "samples" in scope:
            formatted["samples"] = [{**sample, "time": format_time(sample["time"])} for sample in scope["samples"]]
        match scope.get("log"):
            case dict(line):
                formatted["log"] = {**line, "time": format_time(line.get("time"))}
            case list(lines):
                formatted["log"] = [{**line, "time": format_time(line.get("time"))} for line in lines]
        return formatted

    def _times(self, observer: Observer) -> MessageTimes:
        config, defaults = observer.configuration.config, self._defaults
        try:
            zone = parse_time_zone(str(config.get("time_zone") or defaults.time_zone))
            return MessageTimes(zone, check_time_format(str(config.get("time_format") or defaults.time_format)))
        except Undeliverable:
            if observer.configuration.channel == "mail":
                raise
            # Only those of mails are validated when an observer is configured.
            return MessageTimes(parse_time_zone(defaults.time_zone), check_time_format(defaults.time_format))

    def _link(self, event: Event, fields: Scope) -> str:
        return _report_link(event) or self._job_link(event, fields)

    def _job_link(self, event: Event, fields: Scope) -> str:
        """The page of the job in the console. It names the organization, because job numbers are not unique."""
        name = fields.get("event")
        if template_of(event) is not None:
            place = alarm_place(event)
        elif name in EVENT_NAMES:
            place = f"objects/{'job' if name in JOB_EVENTS else 'jobset'}/{fields['id']}"
        else:
            place = ""
        if not self._defaults.public_url or not place:
            return ""
        organization = self._organization_name(event.id.server)
        query = f"{'&' if '?' in place else '?'}org={organization}" if organization else ""
        return f"{self._defaults.public_url.rstrip('/')}/#/{place}{query}"

    def _message(self, delivery: Delivery, event: Event, fields: Scope, observer: Observer, job: Scope) -> Message:
        channel = observer.configuration.channel
        if channel == "webhook" or channel == "eventbridge":  # noqa: PLR1714  (mypy narrows the type by this form only)
            return self._event_message(delivery, event, fields, observer, event)
        name, scope = _template_name(event, fields), self._scope(event, fields, observer, job)
        if channel == "apprise":
            parts = self._render("app", name, scope)
            alert = alert_of(event.fields)
            is_failure = alert is not None and alert.action == "trigger"
            return AppriseMessage(delivery.id, _apprise_url(delivery, observer), **parts, is_failure=is_failure)
        return self._text_message(delivery, observer, channel, self._render(channel, name, scope))

    def _event_message(
        self, delivery: Delivery, event: Event, fields: Scope, observer: Observer, last: Event
    ) -> Message:
        organization = self._organization_name(event.id.server) or ""
        link, public_url = self._link(event, fields), self._defaults.public_url
        return build_event_message(delivery, event, fields, observer, organization, link, public_url, last)

    def _render(self, channel: TemplateChannel, name: str, scope: Scope) -> dict[str, str]:
        return {part: self._renderer.render(channel, name, part, scope) for part in MESSAGE_PARTS[channel]}

    def _text_message(
        self, delivery: Delivery, observer: Observer, channel: TemplateChannel, parts: dict[str, str]
    ) -> Message:
        config = observer.configuration.config
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
                    raise Undeliverable("No destination user")
                return AppMessage(
                    delivery.id, delivery.server, user, observer.name, parts["subject"], parts["body"], delivery.event
                )


def _apprise_url(delivery: Delivery, observer: Observer) -> str:
    """The URL of the recipient, which the delivery names by its service and position."""
    urls = dict(zip(observer.addresses, apprise_urls(observer.configuration.config.get("urls")), strict=False))
    if delivery.address not in urls:
        raise Undeliverable("the observer has no such URL any more")
    return urls[delivery.address]


def _public_config(observer: Observer) -> Scope:
    """The configuration of the channel without its secrets."""
    config = observer.configuration.config
    return {name: value for name, value in config.items() if name not in NOT_IN_TEMPLATES}


def event_fields(event: Event) -> Scope:
    """The event in the JSON of its vocabulary, or as a core event if it belongs to none."""
    fields: Scope = from_json(vocabularies.native_text(event))
    return fields


def _template_name(event: Event, fields: Scope) -> str:
    if (name := template_of(event)) is not None:
        return name
    is_job_event = event.fields.type[:1] in (("job",), ("jobset",)) and "event" in fields
    return str(fields["event"]) if is_job_event else "default"


def _report_link(event: Event) -> str:
    """The link of a `report/ready` event. Empty for other events and for links that are not allowed."""
    match event.fields:
        case EventFields(("report", "ready", *_), payload={"data": {"link": str(link)}}) if link.startswith(
            _LINK_PREFIXES
        ):
            return link
        case _:
            return ""


def _job_settings(fields: Scope, configured: ConfigurationState) -> Scope:
    job_type = fields.get("type")
    return dict(configured.jobs.get(job_type) or {}) if isinstance(job_type, str) else {}


def _is_set(name: str, fields: Scope, job: Scope) -> bool:
    """Whether a flag is set in the event's props, or in its job's settings if the props do not mention it."""
    props = fields.get("props")
    value = props[name] if isinstance(props, dict) and name in props else job.get(name)
    return value not in _FALSE_VALUES


def parse_time_zone(name: str) -> ZoneInfo:
    """Raises `Undeliverable` if the time zone is unknown."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise Undeliverable(f"time_zone: unknown time zone '{name[:80]}'; use a name such as Europe/Berlin") from error


def check_time_format(text: str) -> str:
    """Return `text`. Raises `Undeliverable` if it is too long."""
    if len(text) > MAX_TIME_FORMAT_CHARS:
        raise Undeliverable(f"time_format: longer than {MAX_TIME_FORMAT_CHARS} characters")
    return text
