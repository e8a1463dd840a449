"""The pages of reports: files on this machine, links to S3."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from chalicelib.adapters.report_pages import PRESIGNED_S, FilePages, S3Pages, s3_client

BUCKET = "annals-1-eu-central-1"


def test_each_organization_has_a_page_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    for server in (1, 11):
        (tmp_path / "reports" / f"report-{server}.html").write_text(f"Grüße an {server}", encoding="utf-8")
    pages = FilePages(tmp_path)
    found = [pages.page(server, name) for server, name in ((1, "report"), (11, "report"), (2, "report"), (1, "costs"))]
    assert found == ["Grüße an 1", "Grüße an 11", None, None]


def test_without_a_lake_there_are_no_pages(tmp_path: Path) -> None:
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
def test_a_link_to_s3_is_for_one_page_and_for_a_minute(lake: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    link = urlsplit(S3Pages(s3_client(), lake).link(7, "report"))
    query = parse_qs(link.query)
    assert (link.scheme, link.netloc, link.path) == ("https", f"{BUCKET}.s3.eu-central-1.amazonaws.com", key)
    assert query["X-Amz-Expires"] == [str(PRESIGNED_S)]
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["response-content-type"] == ["text/html; charset=utf-8"]


@pytest.mark.usefixtures("aws_environment")
def test_where_buckets_have_no_names_of_hosts_they_are_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    link = S3Pages(s3_client(), f"s3://{BUCKET}/lake").link(7, "report")
    assert link.startswith(f"http://127.0.0.1:4566/{BUCKET}/lake/reports/report-7.html?")
