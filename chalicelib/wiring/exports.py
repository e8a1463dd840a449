"""Build the services that export the table on AWS and publish `report/ready` events."""

from chalicelib.services.exports.report_events import ReportPublisher
from chalicelib.services.exports.table_export import TableExporter
from chalicelib.wiring.components import Components
from chalicelib.wiring.reports import s3_pages


def table_exporter(components: Components) -> TableExporter:
    from chalicelib.adapters.aws.client import DYNAMODB, GLUE  # noqa: PLC0415  (only two functions export)
    from chalicelib.adapters.dynamodb.exports import DynamoExports, GlueJob  # noqa: PLC0415
    from chalicelib.wiring.on_aws import service_client  # noqa: PLC0415

    settings = components.settings.exports
    exports = DynamoExports(service_client(DYNAMODB), settings.table_arn, settings.bucket, settings.prefix)
    exports_url = f"s3://{settings.bucket}/{settings.prefix}".rstrip("/")
    arguments = {"--exports": exports_url, "--lake": settings.lake_url}
    history_job = GlueJob(service_client(GLUE), settings.history_job, arguments)

    def save_names() -> None:
        names = {organization.server: organization.name for organization in components.log.organizations.all()}
        s3_pages(components).save_names(names)

    return TableExporter(components.stores.views, exports, history_job, components.clock, save_names)


def report_publisher(components: Components) -> ReportPublisher:
    return ReportPublisher(components.log.publisher, components.log.organizations)
