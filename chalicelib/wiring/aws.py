"""A Lambda function, with what it keeps in DynamoDB and SQS."""

from functools import partial

from chalicelib.aws.calls import Calls
from chalicelib.aws.client import DYNAMODB, SQS, Service, client
from chalicelib.aws.deadlines import left_s
from chalicelib.delivery.sqs import SqsOutbox
from chalicelib.domain.pending import Settled
from chalicelib.services.append import Appender
from chalicelib.services.delivering import Mailer
from chalicelib.services.ports import Clock, unmeasured
from chalicelib.services.present import Present
from chalicelib.services.wakes import Looking
from chalicelib.settings import Settings
from chalicelib.store.dynamodb.log import DynamoLog
from chalicelib.store.dynamodb.metering import Metered
from chalicelib.store.dynamodb.views import DynamoViews
from chalicelib.wiring.observing import watch
from chalicelib.wiring.parts import Means, request_id


def means(settings: Settings, clock: Clock) -> Means:
    """Each request its own commit, and readers who look again."""
    watching = watch()
    measure = unmeasured if watching is None else watching.measure
    dynamodb = calls_of(DYNAMODB)
    if watching is not None:
        dynamodb = Metered(dynamodb, measure)
    log = DynamoLog(dynamodb, settings.log_table, settings.views_table, retention_s=settings.retention_s)
    views = DynamoViews(dynamodb, settings.views_table)
    present = Present(log, views)
    appender = Appender(log, clock, present=present, measure=measure, left_s=left_s)

    def mailer() -> Mailer:
        from chalicelib.delivery.ses import SesMailer, ses_client  # noqa: PLC0415  (only who delivers needs it)

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
