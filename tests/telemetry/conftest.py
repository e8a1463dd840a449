"""Functions on an AWS of this machine, watched as they are on Lambda."""

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest

import app
from chalicelib import wiring
from chalicelib.adapters.mail.ses import ses_client
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.wiring import Annals
from chalicelib.wiring.telemetry import watch
from tests.adapters.channels.queues import a_client, create_queue
from tests.serving import JWT_KEY
from tests.telemetry.lambdas import FUNCTION, Lambda
from tests.torture.stores import REGION


@pytest.fixture
def parts(
    ministack: str,
    ministack_tables: tuple[str, str],
    aws_environment: None,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Annals]:
    """The parts of a function, with acme (1); its observers tell by mail, in the app, and where nobody answers."""
    with a_client(ministack) as client:
        queue_url = create_queue(client)
    with closing(ses_client(ministack, REGION)) as mail:
        mail.create_email_identity(EmailIdentity="annals@example.org")
    environment = {
        "AWS_LAMBDA_FUNCTION_NAME": FUNCTION,
        "AWS_ENDPOINT_URL": ministack,
        "LOG_TABLE": ministack_tables[0],
        "VIEWS_TABLE": ministack_tables[1],
        "OUTBOX_QUEUE_URL": queue_url,
        "JWT_KEY": JWT_KEY,
        "MAIL_FROM": "annals@example.org",
        "SLACK_HOSTS": "private:127.0.0.1:9",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    forget()
    found = wiring.annals()
    found.organizations.create("acme")
    found.observers.put(1, "mail", Configuration(channel="mail", config={"to": "anna@example.org"}))
    found.observers.put(1, "app", Configuration(channel="app", config={"to": "anna"}))
    found.observers.put(1, "slack", Configuration(channel="slack", config={"url": "https://127.0.0.1:9/services/x"}))
    watching = watch()
    assert watching is not None
    watching.measure.tell()
    yield found
    found.close()
    forget()


@pytest.fixture
def aws(parts: Annals, capsys: pytest.CaptureFixture[str]) -> Lambda:
    """Lambda, which calls the functions."""
    assert parts.settings.function == FUNCTION
    called = Lambda(capsys)
    called.written()
    return called


def forget() -> None:
    """Be a new process as far as functions can tell."""
    wiring.annals.cache_clear()
    app._delivering.cache_clear()
    watch.cache_clear()
    log = logging.getLogger("annals")
    for handler in list(log.handlers):
        log.removeHandler(handler)
    for name in [name for name in vars(log) if name == "init" or name.startswith("powertools")]:
        delattr(log, name)
    log.setLevel(logging.NOTSET)
