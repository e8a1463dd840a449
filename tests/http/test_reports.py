"""Reports over HTTP: the list, a link for a minute, and the page of one's own organization."""

from pathlib import Path
from typing import Any

import pytest

from tests.serving import Member, Server, new_name, serving

PAGE = "<!DOCTYPE html><title>Grüße</title><style>a { color: red }</style>"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-popups"
)


def ready(member: Member, name: str = "report", **data: Any) -> dict[str, Any]:
    """A report has become ready, as its event says."""
    payload = {"type": "json", "data": {"name": name, **data}}
    answer = member.post(
        {"events": [{"type": ["report", "ready", name], "key": f"/report/{name}", "payload": payload}]}
    )
    assert answer.status_code == 201, answer.text
    (event,) = answer.json()["events"]
    found: dict[str, Any] = event
    return found


def put_page(member: Member, name: str = "report", text: str = PAGE) -> None:
    """The page is in the lake."""
    folder = member.server.data_dir / "lake" / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{member.create()}.html").write_text(text, encoding="utf-8")


def link(member: Member, name: str = "report") -> str:
    answer = member.ask("POST", f"/reports/{name}/link")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["link"])


def test_reports_are_listed_as_they_became_ready_the_newest_first(member: Member) -> None:
    assert member.get("/reports").json() == {"reports": []}
    first = ready(member, link="https://reports.example/1")
    second = ready(member, link="file:///data/report.html")
    assert member.get("/reports").json() == {
        "reports": [
            {"name": "report", "at": one["timestamp"], "eventId": one["eventId"], "link": at}
            for one, at in ((second, None), (first, "https://reports.example/1"))
        ]
    }


def test_a_link_opens_the_page_without_a_token(member: Member) -> None:
    ready(member)
    put_page(member)
    found = link(member)
    assert found.startswith("reports/report?ticket=")
    answer = member.server.client.get(f"/{found}")
    assert (answer.status_code, answer.text) == (200, PAGE)
    assert {name: answer.headers[name] for name in answer.headers if name not in ("content-length", "date")} == {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }


def test_a_link_opens_nothing_but_the_page_of_its_own_organization(member: Member) -> None:
    other = member.server.organization()
    for one, text in ((member, "mine"), (other, "theirs")):
        ready(one)
        put_page(one, text=text)
    client = member.server.client
    assert [client.get(f"/{link(one)}").text for one in (member, other)] == ["mine", "theirs"]
    costs = link(member).replace("reports/report?", "reports/costs?")
    assert client.get(f"/{costs}").status_code == 403


@pytest.mark.parametrize(
    ("query", "status"), [("", 400), ("?ticket=", 403), ("?ticket=a.b.c", 403), ("?ticket=a&more=b", 400)]
)
def test_without_a_good_ticket_there_is_no_page(member: Member, query: str, status: int) -> None:
    ready(member)
    put_page(member)
    answer = member.get(f"/reports/report{query}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")


def test_a_token_is_no_ticket_and_a_ticket_no_token(member: Member) -> None:
    ready(member)
    put_page(member)
    assert member.server.client.get(f"/reports/report?ticket={member.token}").status_code == 403
    ticket = link(member).partition("ticket=")[2]
    headers = {"Authorization": f"Bearer {ticket}"}
    assert member.server.client.get("/reports", headers=headers).status_code == 401


def test_there_is_no_link_to_what_is_not_there(member: Member) -> None:
    put_page(member)
    assert member.ask("POST", "/reports/report/link").status_code == 404
    ready(member, "costs")
    gone = member.ask("POST", "/reports/costs/link")
    assert (gone.status_code, "is gone" in gone.json()["detail"]) == (404, True)


@pytest.mark.parametrize("name", ["..%2Freport", "..", "report.html", "%00", "*", "%3F"])
def test_no_name_leads_out_of_the_folder_of_reports(member: Member, name: str) -> None:
    ready(member)
    put_page(member)
    assert member.ask("POST", f"/reports/{name}/link").status_code in (404, 405)


def test_reports_are_for_readers_of_the_organization(member: Member) -> None:
    ready(member)
    put_page(member)
    for method, path in (("GET", "/reports"), ("POST", "/reports/report/link")):
        assert member.server.client.request(method, path).status_code == 401
        publisher = member.server.member(member.organization, groups=["publishers"])
        assert publisher.ask(method, path).status_code == 403
        assert member.ask(method, path, headers={"X-Organization": "local"}).status_code == 403
        assert member.server.member(new_name()).ask(method, path).status_code == 404
    assert member.server.organization().ask("POST", "/reports/report/link").status_code == 404


def test_a_list_of_reports_takes_no_parameters(member: Member) -> None:
    assert member.get("/reports?limit=5").status_code == 400


def test_reports_that_are_served_elsewhere_are_linked_to_there(tmp_path: Path) -> None:
    def told(server: Server) -> tuple[int, str]:
        member = server.organization()
        ready(member)
        return member.create(), link(member)

    with serving(tmp_path / "data", REPORT_URL="https://reports.example/{server}.html") as server:
        number, found = told(server)
    assert found == f"https://reports.example/{number}.html"
