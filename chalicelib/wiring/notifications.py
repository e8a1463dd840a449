"""What tells people: loaded only by those who deliver, or check what shall be delivered."""

from functools import cache
from pathlib import Path

from chalicelib.adapters.mail.message import NO_ADDRESS, address, addresses
from chalicelib.adapters.slack.webhook import SlackPoster, check_url
from chalicelib.adapters.templates.renderer import Templates
from chalicelib.domain.errors import BadInput, Undeliverable
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.services.notifications.deliverer import Delivering
from chalicelib.services.notifications.message_builder import Defaults, Messages, time_format, time_zone
from chalicelib.services.notifications.preview import Previewing
from chalicelib.settings import Settings
from chalicelib.wiring.components import Annals

MOST_ADDRESSES = 100
"""To whom an observer tells: each event is a delivery to each of them."""


def delivering(parts: Annals) -> Delivering:
    """What makes messages and sends them."""
    slack = SlackPoster(parts.settings.slack_hosts)
    mailer = parts.mailer()
    return Delivering(parts.observers, parts.log, messages(parts), mailer, slack, parts.inbox, parts.measure)


def messages(parts: Annals) -> Messages:
    """What makes messages."""
    settings = parts.settings
    defaults = Defaults(
        settings.mail_from, settings.mail_title, settings.time_format, settings.time_zone, settings.public_url
    )
    return Messages(_templates(settings.templates_path), parts.present, defaults)


def previewing(parts: Annals) -> Previewing:
    """What makes messages that are not on their way yet."""
    return Previewing(parts.present, parts.retention, parts.observers, parts.observing, messages(parts))


def check_observer(configuration: Configuration, settings: Settings) -> None:
    """Refuse a configuration that could never tell anything."""
    config = configuration.config
    try:
        if str(config.get("to") or "").count(",") >= MOST_ADDRESSES:
            raise ValueError(
                f"config.to: an observer tells at most {MOST_ADDRESSES}; give many an address of their own"
            )
        if configuration.filter is not None:
            _templates(settings.templates_path).check_expression(configuration.filter)
        match configuration.channel:
            case "mail":
                sender = str(config.get("from") or settings.mail_from)
                if not sender or not addresses(str(config.get("to") or "")):
                    raise ValueError(NO_ADDRESS)
                address(sender)
                time_zone(str(config.get("time_zone") or settings.time_zone))
                time_format(str(config.get("time_format") or settings.time_format))
            case "slack":
                check_url(str(config.get("url") or ""), settings.slack_hosts)
            case _:
                _check_users(configuration)
    except (ValueError, Undeliverable) as refusal:
        raise BadInput(str(refusal)) from refusal


def _check_users(configuration: Configuration) -> None:
    """Refuse a configuration for the app that names nobody."""
    if configuration.scope == "private" and configuration.user is None:
        raise ValueError("user: name the user whose observer this is")
    users = configuration.config.get("to")
    if configuration.scope == "global" and not (isinstance(users, str) and users.strip(", \t")):
        raise ValueError("config.to: name the users who are to be told, as in 'anna, ben'")


@cache
def _templates(override: Path | None) -> Templates:
    return Templates(override)
