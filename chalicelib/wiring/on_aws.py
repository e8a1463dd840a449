"""A Lambda function, with what it keeps in DynamoDB and SQS."""

from functools import partial

from chalicelib.adapters.aws.client import DYNAMODB, SQS, Service, client
from chalicelib.adapters.aws.protocol import Calls
from chalicelib.adapters.aws.time_budget import left_s
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.metering import Metered
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.sqs_outbox import SqsOutbox
from chalicelib.services.feeds.notifiers import Looking
from chalicelib.services.log.append_future import Settled
from chalicelib.services.log.appender import Appender
from chalicelib.services.notifications.deliverer import Mailer
from chalicelib.services.ports import Clock, unmeasured
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.settings import Settings
from chalicelib.wiring.components import Means, request_id
from chalicelib.wiring.telemetry import watch


def means(settings: Settings, clock: Clock) -> Means:
    """Each request its own commit, and readers who look again."""
    watching = watch()
    measure = unmeasured if watching is None else watching.measure
    dynamodb = calls_of(DYNAMODB)
    if watching is not None:
        dynamodb = Metered(dynamodb, measure)
    log = DynamoLog(dynamodb, settings.log_table, settings.views_table, retention_s=settings.retention_s)
    views = DynamoViews(dynamodb, settings.views_table)
    present = LogReader(log, views)
    appender = Appender(log, clock, present=present, measure=measure, left_s=left_s)

    def mailer() -> Mailer:
        from chalicelib.adapters.mail.ses import SesMailer, ses_client  # noqa: PLC0415  (only who delivers needs it)

        return SesMailer(ses_client())

    return Means(
        log=log,
        views=views,
        present=present,
        wake=Looking(goes_on=log.goes_on),
        appender=appender,
        submit=lambda append: Settled(appender.append(append)),
        request_id=request_id,
        plainly=lambda _body: None,  # what it takes to import the reader, it would save in hundreds of requests
        outbox=SqsOutbox(partial(calls_of, SQS), settings.outbox_queue_url, views),
        progress=views,
        mailer=mailer,
        forget=lambda _server, _session: 0,
        has_grown=lambda: True,
        measure=measure,
        close=lambda: None,
    )


def calls_of(service: Service) -> Calls:
    """A service of AWS; where a function is watched, it is told what it calls and what has to be repeated."""
    watching = watch()
    if watching is None:
        return client(service)
    return watching.traced(service.signing_name, client(service, repeats=partial(watching.measure, "Retries")))
