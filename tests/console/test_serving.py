"""How the console's files are served."""

import re
from pathlib import Path

import pytest

from chalicelib.http.routes.console import FOLDER
from tests.serving import Member, Server

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.*"))
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
LONGEST = {".js": 250, ".css": 300, ".html": 60, ".svg": 5}


def test_page_needs_no_token_and_has_strict_csp(server: Server) -> None:
    answer = server.client.get("/")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert not re.search(r"<script>|<style|style=|https?:|//\w", answer.text)


@pytest.mark.parametrize("name", FILES)
def test_file_is_served_with_its_content_type(server: Server, name: str) -> None:
    answer = server.client.get(f"/console/{name}")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith(TYPES[name.rpartition(".")[2]])
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.text == (FOLDER / name).read_text()


@pytest.mark.parametrize("tag", ['"{}"', 'W/"{}"', '"other", "{}"', "*"])
def test_known_etag_answers_304(server: Server, tag: str) -> None:
    etag = server.client.get("/console/app.js").headers["ETag"].strip('"')
    answer = server.client.get("/console/app.js", headers={"If-None-Match": tag.format(etag)})
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["ETag"] == f'"{etag}"'


def test_changed_file_is_sent(server: Server) -> None:
    assert server.client.get("/console/app.js", headers={"If-None-Match": '"old"'}).status_code == 200


@pytest.mark.parametrize(
    "name",
    ["nothing.js", "..%2Froutes%2Fconsole.py", "%2e%2e/%2e%2e/app.py", "views/../app.js", "views", "%2Fetc%2Fpasswd"],
)
def test_unknown_file_is_404(server: Server, name: str) -> None:
    with server.connect() as connection:
        connection.sendall(f"GET /console/{name} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 404")


def test_page_below_api_gateway_stage_redirects_to_slash(member: Member) -> None:
    """Links in the page are relative, so the page address must end with a slash."""
    page = member.server.client.get("/").text
    assert re.findall(r'(?:src|href)="(/[^"]*)"', page) == []


@pytest.mark.parametrize("name", FILES)
def test_console_files_are_short_and_write_no_markup(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert len(text.splitlines()) <= LONGEST[Path(name).suffix]
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
    assert Path(name).suffix == ".js" or "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_index_preloads_first_modules() -> None:
    page = (FOLDER / "index.html").read_text()
    assert sorted(re.findall(r'modulepreload" href="console/([^"]+)"', page)) == sorted(
        _imported("app.js") - {"app.js"}
    )


def _imported(name: str) -> set[str]:
    """The module and its static imports, without dynamic ones."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            parts = re.findall(r'from "(\.[^"]+)"', (FOLDER / module).read_text())
            waiting += [((FOLDER / module).parent / part).resolve().relative_to(FOLDER).as_posix() for part in parts]
    return found
