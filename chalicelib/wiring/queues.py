"""Builds the queues that only one function uses."""

from functools import partial

from chalicelib.services.log.ingest import IngestQueue
from chalicelib.settings import Settings


def ingest_queue(settings: Settings) -> IngestQueue:
    from chalicelib.adapters.aws.client import SQS  # noqa: PLC0415  (only one function ingests)
    from chalicelib.adapters.queue.ingest_queue import SqsIngestQueue  # noqa: PLC0415
    from chalicelib.wiring.on_aws import service_client  # noqa: PLC0415

    queues = settings.ingest
    return SqsIngestQueue(partial(service_client, SQS), queues.queue_url, queues.dead_letter_queue_url)
