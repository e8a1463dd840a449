"""Functions with telemetry, on an emulated AWS."""

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest

import app
from chalicelib import wiring
from chalicelib.adapters.mail.ses import ses_client
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.wiring import Components
from chalicelib.wiring.telemetry import function_telemetry
from tests.adapters.channels.queues import create_queue, open_client
from tests.serving import JWT_KEY
from tests.telemetry.lambda_runner import FUNCTION, Lambda
from tests.torture.stores import REGION


@pytest.fixture
def components(
    ministack: str,
    ministack_tables: tuple[str, str],
    aws_environment: None,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Components]:
    """Components of a function with acme (1). Its observers use mail, the app, and a Slack host without a server."""
    with open_client(ministack) as client:
        queue_url = create_queue(client)
    with closing(ses_client(ministack, REGION)) as mail:
        mail.create_email_identity(EmailIdentity="annals@example.org")
    environment = {
        "AWS_LAMBDA_FUNCTION_NAME": FUNCTION,
        "STACK": "annals-test",
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
    reset_process()
    components = wiring.get_components()
    components.log.organizations.create("acme")
    components.notifications.observers.put(1, "mail", Configuration(channel="mail", config={"to": "anna@example.org"}))
    components.notifications.observers.put(1, "app", Configuration(channel="app", config={"to": "anna"}))
    components.notifications.observers.put(
        1, "slack", Configuration(channel="slack", config={"url": "https://127.0.0.1:9/services/x"})
    )
    telemetry = function_telemetry()
    assert telemetry is not None
    telemetry.measure.flush()
    yield components
    components.close()
    reset_process()


@pytest.fixture
def aws(components: Components, capsys: pytest.CaptureFixture[str]) -> Lambda:
    """Calls the functions."""
    assert components.settings.function == FUNCTION
    functions = Lambda(capsys)
    functions.read_output()
    return functions


def reset_process() -> None:
    """Drop all state of the process."""
    wiring.get_components.cache_clear()
    app._deliverer.cache_clear()
    function_telemetry.cache_clear()
    log = logging.getLogger("annals")
    for handler in list(log.handlers):
        log.removeHandler(handler)
    for name in [name for name in vars(log) if name == "init" or name.startswith("powertools")]:
        delattr(log, name)
    log.setLevel(logging.NOTSET)
