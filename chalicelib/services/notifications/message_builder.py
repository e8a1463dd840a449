"""Builds the message of an observer about an event, using the templates of the observer's channel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic_core import from_json

from chalicelib.domain import vocabularies
from chalicelib.domain.calm.outcomes import outcome_of
from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.events.event import Event, EventFields
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import (
    MESSAGE_PARTS,
    AppMessage,
    Channel,
    Delivery,
    Dropped,
    Mail,
    Message,
    SlackPost,
)
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.vocabularies.job.events import EVENT_NAMES, JOB, JOB_EVENTS
from chalicelib.services.objects.snapshots import state_at
from chalicelib.services.reading.log_reader import LogReader

Scope = dict[str, Any]
"""The variables of a template."""
MAX_TIME_FORMAT_CHARS = 100
"""Limited because the format is applied to every line of a job log."""
_MAX_TIME_CHARS = 200
_FALSE_VALUES = ("", "0", "false", False, 0, None)
_LINK_PREFIXES = ("https://", "http://", "file:///")
"""Allowed starts of a link in a report event: no scripts, and no files of another machine."""


class Renderer(Protocol):
    """Renders templates and evaluates filters. Both raise `Undeliverable` on failure."""

    def render(self, channel: Channel, name: str, part: str, scope: Mapping[str, Any]) -> str:
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
    ) -> None:
        """`organization_name` returns the name of the organization whose log has a number."""
        self._renderer = renderer
        self._reader = reader
        self._organization_name = organization_name
        self._defaults = defaults

    def build(
        self, delivery: Delivery, event: Event, observer: Observer, configured: ConfigurationState
    ) -> Message | Dropped:
        """Build the message, or return why the event or the observer suppresses it."""
        if delivery.count > 1:
            return self._render(delivery, observer, "digest", self._digest_scope(delivery, observer, configured))
        fields = self._with_job_fields(event, event_fields(event))
        job = _job_settings(fields, configured)
        drop_reason = self._drop_reason(fields, observer, job)
        if drop_reason is not None:
            return Dropped(drop_reason)
        return self._render(
            delivery, observer, _template_name(event, fields), self._scope(event, fields, observer, job)
        )

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
        scope = self._scope(event, fields, observer, job)
        return drop_reason, self._render(delivery, observer, _template_name(event, fields), scope)

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
        if _template_name(event, fields) == "default":
            core = from_json(event.wire_text)
            scope = {**core, "event": core}
        else:
            scope = {name: value for name, value in fields.items() if name != "eventId"}
        scope["link"] = _report_link(event) or self._job_link(event, fields)
        if "type" in fields and fields.get("event") in EVENT_NAMES:
            scope["job"] = job
        if not observer.is_private:
            scope["config"] = _public_config(observer)
        if fields.get("event") == "finish":
            scope |= self._job_result(event, fields)
        return self._with_formatted_times(scope, observer) if observer.configuration.channel == "mail" else scope

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

    def _job_result(self, event: Event, fields: Scope) -> Scope:
        """The job's log and its duration in seconds."""
        ref = ObjectRef(JOB, f"/{fields['id']}")
        state = state_at(self._reader, event.id.server, ref, event.event_id) or {}
        result: Scope = {"log": list(state.get("logs") or [])}
        if "seconds" in state:
            result["duration"] = round(state["seconds"])
        return result

    def _with_formatted_times(self, scope: Scope, observer: Observer) -> Scope:
        config = observer.configuration.config
        zone = parse_time_zone(str(config.get("time_zone") or self._defaults.time_zone))
        time_format = check_time_format(str(config.get("time_format") or self._defaults.time_format))

        def format_time(time: Any) -> Any:
            try:
                return datetime.fromtimestamp(time, UTC).astimezone(zone).strftime(time_format)[:_MAX_TIME_CHARS]
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

    def _job_link(self, event: Event, fields: Scope) -> str:
        """The page of the job in the console. It names the organization, because job numbers are not unique."""
        name = fields.get("event")
        if not self._defaults.public_url or name not in EVENT_NAMES:
            return ""
        collection = "job" if name in JOB_EVENTS else "jobset"
        organization = self._organization_name(event.id.server)
        query = f"?org={organization}" if organization else ""
        return f"{self._defaults.public_url.rstrip('/')}/#/objects/{collection}/{fields['id']}{query}"

    def _render(self, delivery: Delivery, observer: Observer, name: str, scope: Scope) -> Message:
        channel, config = observer.configuration.channel, observer.configuration.config
        parts = {part: self._renderer.render(channel, name, part, scope) for part in MESSAGE_PARTS[channel]}
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


def _public_config(observer: Observer) -> Scope:
    """The configuration of the channel without the webhook URL, which is a secret."""
    return {name: value for name, value in observer.configuration.config.items() if name != "url"}


def event_fields(event: Event) -> Scope:
    """The event in the JSON of its vocabulary, or as a core event if it belongs to none."""
    fields: Scope = from_json(vocabularies.native_text(event))
    return fields


def _template_name(event: Event, fields: Scope) -> str:
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
