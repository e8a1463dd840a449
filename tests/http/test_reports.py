"""Reports over HTTP: the list, links with tickets, and the pages."""

from pathlib import Path
from typing import Any

import pytest

from tests.serving import Member, Server, new_organization_name, run_server

PAGE = "<!DOCTYPE html><title>Grüße</title><style>a { color: red }</style>"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-popups"
)


def publish_ready(member: Member, name: str = "report", **data: Any) -> dict[str, Any]:
    """Publish the event of a finished report."""
    payload = {"type": "json", "data": {"name": name, **data}}
    response = member.post(
        {"events": [{"type": ["report", "ready", name], "key": f"/report/{name}", "payload": payload}]}
    )
    assert response.status_code == 201, response.text
    (event,) = response.json()["events"]
    report_event: dict[str, Any] = event
    return report_event


def put_page(member: Member, name: str = "report", text: str = PAGE) -> None:
    """Write the page of a report."""
    folder = member.server.data_dir / "lake" / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{member.create()}.html").write_text(text, encoding="utf-8")


def get_link(member: Member, name: str = "report") -> str:
    response = member.request("POST", f"/reports/{name}/link")
    assert response.status_code == 200, response.text
    return str(response.json()["link"])


def test_reports_are_listed_newest_first(member: Member) -> None:
    assert member.get("/reports").json() == {"reports": []}
    first = publish_ready(member, link="https://reports.example/1")
    second = publish_ready(member, link="file:///data/report.html")
    assert member.get("/reports").json() == {
        "reports": [
            {"name": "report", "at": event["timestamp"], "eventId": event["eventId"], "link": link}
            for event, link in ((second, None), (first, "https://reports.example/1"))
        ]
    }


def test_link_opens_page_without_token(member: Member) -> None:
    publish_ready(member)
    put_page(member)
    link = get_link(member)
    assert link.startswith("reports/report?ticket=")
    response = member.server.client.get(f"/{link}")
    assert (response.status_code, response.text) == (200, PAGE)
    assert {name: response.headers[name] for name in response.headers if name not in ("content-length", "date")} == {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }


def test_link_opens_only_page_of_own_organization(member: Member) -> None:
    other = member.server.organization()
    for publisher, text in ((member, "mine"), (other, "theirs")):
        publish_ready(publisher)
        put_page(publisher, text=text)
    client = member.server.client
    assert [client.get(f"/{get_link(reader)}").text for reader in (member, other)] == ["mine", "theirs"]
    costs = get_link(member).replace("reports/report?", "reports/costs?")
    assert client.get(f"/{costs}").status_code == 403


@pytest.mark.parametrize(
    ("query", "status"), [("", 400), ("?ticket=", 403), ("?ticket=a.b.c", 403), ("?ticket=a&more=b", 400)]
)
def test_page_requires_valid_ticket(member: Member, query: str, status: int) -> None:
    publish_ready(member)
    put_page(member)
    response = member.get(f"/reports/report{query}")
    assert (response.status_code, response.headers["Content-Type"]) == (status, "application/problem+json")


def test_token_and_ticket_are_not_interchangeable(member: Member) -> None:
    publish_ready(member)
    put_page(member)
    assert member.server.client.get(f"/reports/report?ticket={member.token}").status_code == 403
    ticket = get_link(member).partition("ticket=")[2]
    headers = {"Authorization": f"Bearer {ticket}"}
    assert member.server.client.get("/reports", headers=headers).status_code == 401


def test_link_to_missing_report_is_not_found(member: Member) -> None:
    put_page(member)
    assert member.request("POST", "/reports/report/link").status_code == 404
    publish_ready(member, "costs")
    missing = member.request("POST", "/reports/costs/link")
    assert (missing.status_code, "was deleted" in missing.json()["detail"]) == (404, True)


@pytest.mark.parametrize("name", ["..%2Freport", "..", "report.html", "%00", "*", "%3F"])
def test_report_name_cannot_leave_the_folder(member: Member, name: str) -> None:
    publish_ready(member)
    put_page(member)
    assert member.request("POST", f"/reports/{name}/link").status_code in (404, 405)


def test_reports_are_only_for_readers(member: Member) -> None:
    publish_ready(member)
    put_page(member)
    for method, path in (("GET", "/reports"), ("POST", "/reports/report/link")):
        assert member.server.client.request(method, path).status_code == 401
        publisher = member.server.member(member.organization, groups=["publishers"])
        assert publisher.request(method, path).status_code == 403
        assert member.request(method, path, headers={"X-Organization": "local"}).status_code == 403
        assert member.server.member(new_organization_name()).request(method, path).status_code == 404
    assert member.server.organization().request("POST", "/reports/report/link").status_code == 404


def test_list_of_reports_refuses_parameters(member: Member) -> None:
    assert member.get("/reports?after=5").status_code == 400


def test_configured_report_url_is_used_in_links(tmp_path: Path) -> None:
    def publish_and_link(server: Server) -> tuple[int, str]:
        member = server.organization()
        publish_ready(member)
        return member.create(), get_link(member)

    with run_server(tmp_path / "data", REPORT_URL="https://reports.example/{server}.html") as server:
        number, report_link = publish_and_link(server)
    assert report_link == f"https://reports.example/{number}.html"
