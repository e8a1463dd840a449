"""Components on DynamoDB and SQS: of a Lambda function, and of a hub, which serves many requests at a time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from chalicelib.adapters.aws.client import DYNAMODB, SQS, Service, create_client
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.aws.time_budget import remaining_s
from chalicelib.adapters.dynamodb.legacy_receipts import LegacyReceipts
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.metering import MeteredClient
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.sqs_outbox import SqsOutbox
from chalicelib.domain.errors import Unusable
from chalicelib.services.feeds.notifiers import PollingNotifier
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.direct_appends import DirectAppends
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.log.receipts import ProjectedReceipts
from chalicelib.services.notifications.deliverer import Mailer
from chalicelib.services.ports import Clock, ignore_metric
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.tail_cache import TailCache
from chalicelib.settings import Settings
from chalicelib.wiring.components import (
    Components,
    Stores,
    build_components,
    build_log_services,
    new_request_id,
    page_size,
    request_ids,
)
from chalicelib.wiring.telemetry import function_telemetry

HEAD_READERS = 4
"""Threads of a hub that read the heads of logs for empty appends."""


def build(settings: Settings, clock: Clock) -> Components:
    """Components of a function. Each request is a commit of its own, and readers poll for new commits."""
    telemetry = function_telemetry()
    measure = ignore_metric if telemetry is None else telemetry.measure
    dynamodb = service_client(DYNAMODB)
    if telemetry is not None:
        dynamodb = MeteredClient(dynamodb, measure)
    dynamo_log, stores = _open_stores(settings, clock, dynamodb)
    reader = LogReader(dynamo_log, stores.views, page_size(settings), TailCache(dynamo_log, stores.views, clock=clock))
    receipts = ProjectedReceipts(reader, LegacyReceipts(dynamodb, settings.views_table).receipts, clock)
    appender = Appender(dynamo_log, clock, reader=reader, measure=measure, remaining_s=remaining_s, receipts=receipts)
    notifier = PollingNotifier(has_newer_commit=dynamo_log.has_newer_commit)
    publisher = Publisher(dynamo_log, DirectAppends(appender), new_request_id)
    log = build_log_services(settings, clock, reader, notifier, appender, publisher)
    return build_components(settings, clock, measure, stores, log, _create_mailer)


def build_hub(settings: Settings, clock: Clock) -> Components:
    """Components of a hub. Requests share commits, and all readers of a log share one poll.

    Functions and other hubs may write the same logs. The conditional put decides between them.
    """
    from chalicelib.services.feeds.log_poller import LogPoller  # noqa: PLC0415  (functions do not need these)
    from chalicelib.services.feeds.notifiers import CommitNotifier  # noqa: PLC0415
    from chalicelib.services.log.parallel_group_commit import ParallelGroupCommit  # noqa: PLC0415

    dynamodb = service_client(DYNAMODB)
    dynamo_log, stores = _open_stores(settings, clock, dynamodb)
    notifier = CommitNotifier()
    tails = TailCache(dynamo_log, stores.views, clock=clock)
    reader = LogReader(dynamo_log, stores.views, page_size(settings), tails, notifier.commits_after)
    receipts = ProjectedReceipts(reader, LegacyReceipts(dynamodb, settings.views_table).receipts, clock)
    appender = Appender(dynamo_log, clock, reader=reader, receipts=receipts)
    poller = LogPoller(notifier, dynamo_log.has_newer_commit, reader.tail)
    appends, head_reads = ParallelGroupCommit(appender, poller.publish), ThreadPoolExecutor(HEAD_READERS, "annals-head")
    publisher = Publisher(dynamo_log, appends, request_ids(), head_reads)
    log = build_log_services(settings, clock, reader, notifier, appender, publisher, poller.poll)
    return build_components(settings, clock, ignore_metric, stores, log, _create_mailer)


def _open_stores(settings: Settings, clock: Clock, dynamodb: ServiceClient) -> tuple[DynamoLog, Stores]:
    dynamo_log = DynamoLog(dynamodb, settings.log_table, settings.views_table, retention_s=settings.stored_s)
    views = DynamoViews(dynamodb, settings.views_table)
    stores = Stores(
        log=dynamo_log,
        views=views,
        progress=views,
        outbox=SqsOutbox(partial(service_client, SQS), settings.outbox_queue_url, views, clock=clock),
        delete_commits=lambda _server, _session: 0,
        has_external_writes=lambda: True,
        last_sessions=dict,
        close=lambda: None,
        has_copies_in_views=True,
    )
    return dynamo_log, stores


def service_client(service: Service) -> ServiceClient:
    """A client of an AWS service. In a Lambda function its calls are traced and its retries counted."""
    telemetry = function_telemetry()
    if telemetry is None:
        return _create_client(service)
    client = _create_client(service, partial(telemetry.measure, "Retries"))
    return telemetry.trace_client(service.signing_name, client)


def _create_client(service: Service, on_retry: Callable[[], None] = lambda: None) -> ServiceClient:
    match Settings.from_environment().aws_client:
        case "":
            return create_client(service, on_retry=on_retry)
        case "boto3":
            from chalicelib.adapters.aws.boto3_client import Boto3Client  # noqa: PLC0415  (slow to import)

            return Boto3Client(service, on_retry=on_retry)
        case name:
            raise Unusable(f"AWS_CLIENT is '{name[:40]}'; it must be 'boto3' or empty")


def _create_mailer() -> Mailer:
    from chalicelib.adapters.mail.ses import SesMailer, ses_client  # noqa: PLC0415  (only deliverers send mail)

    return SesMailer(ses_client())
