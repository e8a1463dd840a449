"""The Chalice app: HTTP routes and Lambda functions. It contains no logic of its own."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from chalicelib.domain.organizations.organization import Organization, is_configuration_log
from chalicelib.http import parameters, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.cors import CrossOriginChalice
from chalicelib.http.middleware import limit_response_size
from chalicelib.http.routes import (
    console,
    events,
    jobscheduler,
    objects,
    observers,
    openapi,
    organizations,
    people,
    previews,
    push_jobs,
    reports,
    system,
)
from chalicelib.http.routes.monitoring import alerts, expectations
from chalicelib.http.routes.pings import ping_keys, pings
from chalicelib.lambda_events import exports, sqs, streams
from chalicelib.services.consumers.consumer import ClaimingConsumer, Consumer, RunSizes, catch_up, measure_lag
from chalicelib.services.consumers.for_each import MIN_REMAINING_MS, for_each_in_time, raise_all
from chalicelib.services.exports.report_events import report_link
from chalicelib.services.log.ingest import Ingester
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.notifications.queue_worker import as_delivery_queue, deliver_batch
from chalicelib.services.ports import Views
from chalicelib.services.reading.retention import Retention
from chalicelib.wiring import get_components
from chalicelib.wiring.exports import report_publisher, table_exporter
from chalicelib.wiring.queues import ingest_queue
from chalicelib.wiring.reports import s3_pages
from chalicelib.wiring.telemetry import telemetry_middleware

app = CrossOriginChalice(lambda: get_components().settings.cors_origins, app_name="annals", configure_logs=False)
app.api.binary_types = []
for blueprint in (
    authorizer,
    console,
    people,
    events,
    jobscheduler,
    objects,
    push_jobs,
    observers,
    alerts,
    previews,
    expectations,
    ping_keys,
    pings,
    reports,
    organizations,
    system,
    openapi,
):
    app.register_blueprint(blueprint.routes)
app.register_middleware(telemetry_middleware)
app.register_middleware(authorizer.token_verifier(app.routes), "http")
app.register_middleware(limit_response_size, "http")


@app.lambda_function(name="publish")
def publish(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Append events. IAM decides who may invoke this function."""
    del context
    log = get_components().log
    request = requests.validate(parameters.PublishRequest, event)
    server = log.organizations.server(request.org)
    return responses.append_value(
        log.publisher.publish(server, request.events, request.condition, request.idempotency_key)
    )


@app.lambda_function(name="ingest")
def ingest(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Append the events of messages from the ingest queue. SQS redelivers those that could not be appended yet."""
    del context
    components = get_components()
    log, queue = components.log, ingest_queue(components.settings)
    ingester = Ingester(log.organizations, log.appender, components.stores.log, queue)
    return sqs.partial_batch_response(ingester.ingest(sqs.parse_ingest_messages(event)))


@app.lambda_function(name="project")
def project(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Update the views of the logs that the stream reports."""
    components = get_components()
    logs, views = streams.logs_to_project(event), components.stores.views
    stored = components.log.stored_retention
    unfinished = _consume(components.consumers.projector, logs, views, stored, "ProjectLag", context)
    return streams.partial_batch_response(event, unfinished)


@app.lambda_function(name="observe")
def observe(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Put the notifications about new events of the logs that the stream reports into the outbox."""
    components = get_components()
    consumer, progress = components.notifications.matcher.consumer, components.stores.progress
    retention = components.log.retention
    unfinished = _consume(consumer, streams.logs_to_observe(event), progress, retention, "ObserveLag", context)
    return streams.partial_batch_response(event, unfinished)


@app.lambda_function(name="deliver")
def deliver(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Send the messages from the outbox queue. SQS redelivers messages that fail."""
    components = get_components()
    failed = deliver_batch(
        sqs.parse_delivery_messages(event),
        _deliverer(),
        as_delivery_queue(components.stores.outbox),
        components.clock,
        context.get_remaining_time_in_millis,
        components.measure,
        components.notifications.failures.report,
    )
    return sqs.partial_batch_response(failed)


@app.lambda_function(name="clean")
def clean(event: dict[str, Any], context: Any) -> None:
    """Do the work of all organizations whose time has come: close silent jobs, raise alarms, send held messages."""
    del event
    indexes = get_components().consumers.due_indexes

    def has_time() -> bool:
        return bool(context.get_remaining_time_in_millis() > MIN_REMAINING_MS)

    while has_time() and any(due.run(has_time, on_error=raise_all) for due in indexes):
        pass


@app.lambda_function(name="export")
def export(event: dict[str, Any], context: object) -> None:
    """Start due exports of the log table and check on those that are running. Runs by schedule."""
    del event, context
    table_exporter(get_components()).run()


@app.lambda_function(name="exported")
def exported(event: dict[str, Any], context: object) -> None:
    """Load exports into the history when their last file has arrived in S3, or when an earlier load has ended."""
    del context
    table_exporter(get_components()).handle_complete(exports.complete_export_ids(event))


@app.lambda_function(name="reported")
def reported(event: dict[str, Any], context: object) -> None:
    """Publish a `report/ready` event to each organization with a new page when the reports job has succeeded."""
    del context
    components, run = get_components(), exports.successful_job_run(event)
    if run is None or run.job != components.settings.exports.reports_job:
        return
    url, periods = components.settings.exports.report_url, s3_pages(components).new_periods(run.run_id)

    def facts_of(organization: Organization) -> dict[str, Any] | None:
        if organization.server not in periods:
            return None
        return {"link": report_link(url, organization), "period": periods[organization.server]}

    report_publisher(components).publish_ready("report", facts_of, run.run_id)


_RUN_SIZES = RunSizes()
"""Lasts as long as the process, so that a run that timed out is smaller at the next invocation."""


def _consume(
    consumer: Consumer | ClaimingConsumer,
    servers: Sequence[int],
    views: Views,
    retention: Retention,
    lag_metric: str,
    context: Any,
) -> set[int]:
    """Run the consumer on each log. Returns the logs that need another run."""
    components = get_components()
    report_lag = measure_lag(lag_metric, components.clock, components.measure)

    def consume_log(server: int, has_time: Callable[[], bool]) -> bool:
        return catch_up(
            consumer,
            server,
            components.stores.log,
            views,
            # The directory and the configuration are kept completely.
            None if is_configuration_log(server) else retention.boundary(server).head,
            report_lag,
            has_time=has_time,
            sizes=_RUN_SIZES,
        )

    return for_each_in_time(servers, consume_log, context.get_remaining_time_in_millis)


@cache
def _deliverer() -> Deliverer:
    from chalicelib.wiring.notifications import build_deliverer  # noqa: PLC0415  (only this function needs templates)

    return build_deliverer(get_components())
