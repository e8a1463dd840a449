"""Build the services that list reports and find their pages."""

from chalicelib.adapters.report_pages import FilePages, S3Pages, create_s3_client
from chalicelib.services.exports.report_list import Reports
from chalicelib.wiring.components import Components


def reports(components: Components) -> Reports:
    return Reports(components.log.reader, components.log.retention)


def file_pages(components: Components) -> FilePages | None:
    """Report pages in the local lake, or None if they are in S3."""
    return FilePages(components.settings.data_dir / "lake") if components.settings.store == "sqlite" else None


def s3_pages(components: Components) -> S3Pages:
    return S3Pages(create_s3_client(), components.settings.exports.lake_url)
