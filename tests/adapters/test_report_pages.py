"""Report pages: local files and presigned links to S3."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from chalicelib.adapters.report_pages import LINK_LIFETIME_S, FilePages, S3Pages, create_s3_client

BUCKET = "annals-1-eu-central-1"


def test_file_pages_page_by_organization_and_name(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    for server in (1, 11):
        (tmp_path / "reports" / f"report-{server}.html").write_text(f"Grüße an {server}", encoding="utf-8")
    pages = FilePages(tmp_path)
    contents = [
        pages.page(server, name) for server, name in ((1, "report"), (11, "report"), (2, "report"), (1, "costs"))
    ]
    assert contents == ["Grüße an 1", "Grüße an 11", None, None]


def test_file_pages_without_lake_returns_none(tmp_path: Path) -> None:
    assert FilePages(tmp_path / "lake").page(1, "report") is None


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize(
    ("lake", "key"),
    [
        (f"s3://{BUCKET}/lake", "/lake/reports/report-7.html"),
        (f"s3://{BUCKET}/lake/", "/lake/reports/report-7.html"),
        (f"s3://{BUCKET}", "/reports/report-7.html"),
    ],
)
def test_s3_pages_link_is_presigned_for_a_minute(lake: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    link = urlsplit(S3Pages(create_s3_client(), lake).link(7, "report"))
    query = parse_qs(link.query)
    assert (link.scheme, link.netloc, link.path) == ("https", f"{BUCKET}.s3.eu-central-1.amazonaws.com", key)
    assert query["X-Amz-Expires"] == [str(LINK_LIFETIME_S)]
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["response-content-type"] == ["text/html; charset=utf-8"]


@pytest.mark.usefixtures("aws_environment")
def test_s3_pages_link_of_emulator_has_bucket_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    link = S3Pages(create_s3_client(), f"s3://{BUCKET}/lake").link(7, "report")
    assert link.startswith(f"http://127.0.0.1:4566/{BUCKET}/lake/reports/report-7.html?")
