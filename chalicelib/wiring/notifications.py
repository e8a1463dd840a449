"""Builds the components that validate, preview and deliver notifications.

Imported only where they are needed, because loading Jinja2 takes long.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from chalicelib.adapters.aws.client import EVENTBRIDGE
from chalicelib.adapters.event_bus import EventBus, find_bus
from chalicelib.adapters.mail.message import MISSING_ADDRESS, normalize_address, parse_addresses
from chalicelib.adapters.slack.webhook import SlackPoster, check_url
from chalicelib.adapters.templates.renderer import TemplateRenderer
from chalicelib.adapters.webhooks.cloud_event_post import WebhookPoster, check_webhook_url
from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.services.calm.decisions import Passes
from chalicelib.services.notifications.deliverer import Deliverer, OptionalChannels
from chalicelib.services.notifications.message_builder import MessageBuilder, MessageDefaults
from chalicelib.services.notifications.messages.job_type_facts import read_job_type
from chalicelib.services.notifications.preview import Previewer
from chalicelib.services.notifications.validation import ObserverValidator
from chalicelib.settings import Settings
from chalicelib.wiring.components import Components, LogServices


def build_deliverer(components: Components) -> Deliverer:
    slack = SlackPoster(components.settings.slack_hosts)
    mailer = components.notifications.create_mailer()
    builder = build_message_builder(components)
    return Deliverer(
        components.notifications.observers,
        components.stores.log,
        builder,
        mailer,
        slack,
        components.notifications.inbox,
        components.measure,
        components.settings.delivery_retry_s,
        optional=_optional_channels(components.settings),
    )


def build_message_builder(components: Components) -> MessageBuilder:
    return _build_message_builder(components.settings, components.log)


def build_event_filter(settings: Settings, log: LogServices) -> Passes:
    """A function that evaluates the filters of observers."""
    builder = _build_message_builder(settings, log)

    def passes(event: Event, observer: Observer, configured: ConfigurationState) -> bool:
        try:
            return builder.drop_reason(event, observer, configured) is None
        except Undeliverable:
            return True  # The filter fails. So will the delivery, which is then listed with the reason.

    return passes


def _build_message_builder(settings: Settings, log: LogServices) -> MessageBuilder:
    return MessageBuilder(
        _renderer(settings.templates_path),
        log.reader,
        log.organizations.name,
        _defaults(settings),
        partial(read_job_type, log.reader),
    )


def build_previewer(components: Components) -> Previewer:
    return Previewer(
        components.log.reader,
        components.log.retention,
        components.notifications.observers,
        components.notifications.matcher,
        build_message_builder(components),
    )


def build_validator(settings: Settings) -> ObserverValidator:
    return ObserverValidator(
        filters=_renderer(settings.templates_path),
        destinations=_Destinations(settings),
        defaults=_defaults(settings),
    )


@dataclass(frozen=True, slots=True)
class _Destinations:
    """Checks destinations with the parsers of the channel adapters."""

    settings: Settings

    def check_mail(self, sender: str, recipients: str) -> None:
        if not sender or not parse_addresses(recipients):
            raise ValueError(MISSING_ADDRESS)
        normalize_address(sender)

    def check_slack_url(self, url: str) -> None:
        check_url(url, self.settings.slack_hosts)

    def check_webhook_url(self, url: str) -> None:
        check_webhook_url(url, self.settings.webhook_hosts)

    def check_apprise_urls(self, urls: Sequence[str]) -> None:
        if self.settings.store != "sqlite":
            raise ValueError("channel: 'apprise' is available only on one machine, not on AWS; use a webhook")
        from chalicelib.adapters.apprise.client import check_urls  # noqa: PLC0415  (not on AWS)

        check_urls(urls, self.settings.webhook_hosts)

    def check_event_bus(self, bus: str) -> None:
        if self.settings.store == "sqlite":
            raise ValueError("channel: 'eventbridge' is available only on AWS, not on one machine; use a webhook")
        if not bus:
            raise ValueError("config.bus: the name or ARN of an event bus")
        find_bus(bus, self.settings.event_buses)


def _optional_channels(settings: Settings) -> OptionalChannels:
    webhook = WebhookPoster(settings.webhook_hosts)
    if settings.store == "sqlite":
        from chalicelib.adapters.apprise.client import AppriseSender  # noqa: PLC0415  (not on AWS)

        return OptionalChannels(webhook, apprise=AppriseSender(settings.webhook_hosts))
    from chalicelib.wiring.on_aws import service_client  # noqa: PLC0415  (not on one machine)

    return OptionalChannels(webhook, event_bus=EventBus(partial(service_client, EVENTBRIDGE), settings.event_buses))


def _defaults(settings: Settings) -> MessageDefaults:
    return MessageDefaults(
        mail_from=settings.mail_from,
        mail_title=settings.mail_title,
        time_format=settings.time_format,
        time_zone=settings.time_zone,
        public_url=settings.public_url,
    )


@cache
def _renderer(override: Path | None) -> TemplateRenderer:
    return TemplateRenderer(override)
