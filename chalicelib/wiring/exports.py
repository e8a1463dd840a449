"""What exports the table on AWS, and tells of reports."""

from chalicelib.services.exports.report_events import Reporting
from chalicelib.services.exports.table_export import TableExporting
from chalicelib.wiring.components import Annals


def table_exporting(parts: Annals) -> TableExporting:
    """What keeps the table's exports going."""
    from chalicelib.adapters.aws.client import DYNAMODB, GLUE  # noqa: PLC0415  (only who exports needs them)
    from chalicelib.adapters.dynamodb.exports import DynamoExports, GlueJob  # noqa: PLC0415
    from chalicelib.wiring.on_aws import calls_of  # noqa: PLC0415

    to = parts.settings.exports
    exports = DynamoExports(calls_of(DYNAMODB), to.table_arn, to.bucket, to.prefix)
    arguments = {"--exports": f"s3://{to.bucket}/{to.prefix}".rstrip("/"), "--lake": to.lake_url}
    loading = GlueJob(calls_of(GLUE), to.history_job, arguments)
    return TableExporting(parts.views, exports, loading, parts.clock)


def reporting(parts: Annals) -> Reporting:
    """What tells that a report is ready."""
    return Reporting(parts.publish, parts.organizations)
