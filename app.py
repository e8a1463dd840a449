"""Annals as a Chalice app: its routes, and the functions that Lambda runs. No logic."""

from typing import Any

from chalice.app import Chalice

from chalicelib.api import parameters, requests, responses, sqs
from chalicelib.routes import access, events, jobscheduler, objects, observers, organizations, pushy
from chalicelib.services.ingest import ingest as ingest_messages
from chalicelib.wiring import annals

app = Chalice(app_name="annals", configure_logs=False)
app.api.binary_types = []
for part in (access, events, jobscheduler, objects, pushy, observers, organizations):
    app.register_blueprint(part.routes)


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
