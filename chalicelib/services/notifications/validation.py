"""Validation of observer configurations: refuse one that could never deliver a message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from chalicelib.domain.errors import BadInput, Undeliverable
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.notifications.secret_fields import apprise_urls
from chalicelib.domain.notifications.webhook_signature import parse_secret
from chalicelib.services.notifications.message_builder import MessageDefaults, check_time_format, parse_time_zone

MAX_ADDRESSES = 100
"""Per observer, because each matching event becomes one delivery per address."""


class FilterChecker(Protocol):
    """Compiles filter expressions without evaluating them."""

    def check_filter(self, text: str) -> None:
        """Raise `ValueError` with the reason if `text` is not a valid filter."""


class DestinationChecker(Protocol):
    """Checks destinations without network access. All methods raise `ValueError` with the reason."""

    def check_mail(self, sender: str, recipients: str) -> None:
        """`recipients` is a comma-separated list."""

    def check_slack_url(self, url: str) -> None: ...

    def check_webhook_url(self, url: str) -> None: ...

    def check_apprise_urls(self, urls: Sequence[str]) -> None:
        """Also raises `ValueError` if this installation cannot send to services of Apprise."""

    def check_event_bus(self, bus: str) -> None:
        """Also raises `ValueError` if this installation cannot send to event buses."""


@dataclass(frozen=True, slots=True)
class ObserverValidator:
    """Validates configurations before they are stored or previewed."""

    filters: FilterChecker
    destinations: DestinationChecker
    defaults: MessageDefaults

    def check(self, configuration: Configuration) -> None:
        """Raise `BadInput` with the reason if the configuration is not usable."""
        try:
            configuration.check_nodes()
            _check_address_count(configuration)
            if configuration.time_zone is not None:
                parse_time_zone(configuration.time_zone)
            if configuration.filter is not None:
                self.filters.check_filter(configuration.filter)
            match configuration.channel:
                case "mail":
                    self._check_mail(configuration)
                case "slack":
                    self.destinations.check_slack_url(str(configuration.config.get("url") or ""))
                case "webhook":
                    self.destinations.check_webhook_url(str(configuration.config.get("url") or ""))
                    if "secret" in configuration.config:
                        parse_secret(str(configuration.config["secret"]))
                case "apprise":
                    self.destinations.check_apprise_urls(apprise_urls(configuration.config.get("urls")))
                case "eventbridge":
                    self.destinations.check_event_bus(str(configuration.config.get("bus") or ""))
                case _:
                    _check_users(configuration)
        except (ValueError, Undeliverable) as error:
            raise BadInput(str(error)) from error

    def _check_mail(self, configuration: Configuration) -> None:
        config = configuration.config
        self.destinations.check_mail(str(config.get("from") or self.defaults.mail_from), str(config.get("to") or ""))
        parse_time_zone(str(config.get("time_zone") or self.defaults.time_zone))
        check_time_format(str(config.get("time_format") or self.defaults.time_format))


def _check_address_count(configuration: Configuration) -> None:
    if str(configuration.config.get("to") or "").count(",") >= MAX_ADDRESSES:
        raise ValueError(f"config.to: at most {MAX_ADDRESSES} addresses are allowed; use a mailing list for more")


def _check_users(configuration: Configuration) -> None:
    if configuration.scope == "private" and configuration.user is None:
        raise ValueError("user: a private app observer needs the name of its user")
    users = configuration.config.get("to")
    if configuration.scope == "global" and not (isinstance(users, str) and users.strip(", \t")):
        raise ValueError("config.to: name the users to notify, as in 'anna, ben'")
