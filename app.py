"""Annals as a Chalice app: its routes, and the functions that Lambda runs. No logic."""

from functools import cache
from typing import Any

from chalice.app import Chalice

from chalicelib.domain.events.head import Head
from chalicelib.domain.organizations.organization import DIRECTORY
from chalicelib.http import parameters, requests, responses
from chalicelib.http.auth import authorizer
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
from chalicelib.lambda_events import exports, sqs, streams
from chalicelib.services.consumers.consumer import catch_up, lag
from chalicelib.services.consumers.for_each_server import all_of, each
from chalicelib.services.consumers.projector import projector
from chalicelib.services.exports.report_events import report_link
from chalicelib.services.log.ingest import ingest as ingest_messages
from chalicelib.services.notifications.deliverer import Delivering
from chalicelib.services.notifications.queue_worker import deliver_batch, queue_of
from chalicelib.wiring import Annals, annals
from chalicelib.wiring.exports import reporting, table_exporting
from chalicelib.wiring.telemetry import observed

app = Chalice(app_name="annals", configure_logs=False)
app.api.binary_types = []
for part in (
    authorizer,
    console,
    people,
    events,
    jobscheduler,
    objects,
    push_jobs,
    observers,
    previews,
    reports,
    organizations,
    system,
    openapi,
):
    app.register_blueprint(part.routes)
app.register_middleware(observed)


@app.lambda_function(name="publish")
def publish(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Append events on behalf of whoever may invoke this function."""
    del context
    parts = annals()
    wanted = requests.checked(parameters.PublishRequest, event)
    server = parts.organizations.server(wanted.org)
    return responses.published_value(
        parts.publish(server, wanted.events, wanted.condition, wanted.idempotency_key).result()
    )


@app.lambda_function(name="ingest")
def ingest(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Append what the ingest queue brings; what fails is brought again."""
    del context
    parts = annals()
    failures = ingest_messages(sqs.messages(event), parts.organizations, parts.appender, parts.log)
    return sqs.partial_failures(failures)


@app.lambda_function(name="project")
def project(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Bring the views of those logs up to date that the stream says have grown."""
    del context
    parts = annals()
    consumer = projector(parts.views)
    caught_up = lag("ProjectLag", parts.clock, parts.measure)
    failed = each(
        streams.projected(event),
        lambda server: catch_up(consumer, server, parts.log, parts.views, _kept(parts, server), caught_up),
    )
    return streams.partial_failures(event, failed)


@app.lambda_function(name="observe")
def observe(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Put in the outbox what observers are to be told about those logs that the stream says have grown."""
    del context
    parts = annals()
    consumer = parts.observing.consumer
    caught_up = lag("ObserveLag", parts.clock, parts.measure)
    failed = each(
        streams.observed(event),
        lambda server: catch_up(consumer, server, parts.log, parts.progress, _kept(parts, server), caught_up),
    )
    return streams.partial_failures(event, failed)


@app.lambda_function(name="deliver")
def deliver(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Deliver what the outbox's queue brings; what fails is brought again."""
    parts = annals()
    failed = deliver_batch(
        sqs.received(event),
        _delivering(),
        queue_of(parts.outbox),
        parts.clock,
        context.get_remaining_time_in_millis,
        parts.measure,
    )
    return sqs.brought_again(failed)


@app.lambda_function(name="clean")
def clean(event: dict[str, Any], context: object) -> None:
    """Clean what has been silent for too long, in the logs of all organizations."""
    del event, context
    parts = annals()
    servers = [organization.server for organization in parts.organizations.all()]
    all_of(servers, lambda server: parts.cleaning.run(server, _kept(parts, server)))


@app.lambda_function(name="export")
def export(event: dict[str, Any], context: object) -> None:
    """Start the export of what is new in the log's table, and bring on those that were started."""
    del event, context
    table_exporting(annals()).run()


@app.lambda_function(name="exported")
def exported(event: dict[str, Any], context: object) -> None:
    """Load into the history what S3 says has arrived."""
    del context
    table_exporting(annals()).arrived(exports.arrived(event))


@app.lambda_function(name="reported")
def reported(event: dict[str, Any], context: object) -> None:
    """Tell every organization that its report is ready."""
    del context
    parts, run = annals(), exports.succeeded(event)
    if run is not None and run.job == parts.settings.exports.reports_job:
        url = parts.settings.exports.report_url
        reporting(parts).ready("report", lambda one: {"link": report_link(url, one)}, run.run)


@cache
def _delivering() -> Delivering:
    from chalicelib.wiring.notifications import delivering  # noqa: PLC0415  (only who delivers waits for templates to load)

    return delivering(annals())


def _kept(parts: Annals, server: int) -> Head | None:
    """Before what is kept of a log; the directory is kept whole."""
    return None if server == DIRECTORY else parts.retention.forgotten(server).before
