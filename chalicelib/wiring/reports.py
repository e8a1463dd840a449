"""What finds the pages of reports: loaded by those who want to read one."""

from chalicelib.adapters.report_pages import FilePages, S3Pages, s3_client
from chalicelib.services.exports.report_list import Reports
from chalicelib.wiring.components import Annals


def reports(parts: Annals) -> Reports:
    """Which reports there are."""
    return Reports(parts.present, parts.retention)


def file_pages(parts: Annals) -> FilePages | None:
    """Their pages on this machine; None if they are in S3."""
    return FilePages(parts.settings.data_dir / "lake") if parts.settings.store == "sqlite" else None


def s3_pages(parts: Annals) -> S3Pages:
    """Their pages in S3."""
    return S3Pages(s3_client(), parts.settings.exports.lake_url)
