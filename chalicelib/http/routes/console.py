"""Routes of the console: a page, and the files it is made of. Anybody may read them: they hold no data."""

import hashlib
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from chalice.app import Blueprint, Response

from chalicelib.domain.errors import NotFound
from chalicelib.http import problems
from chalicelib.http.auth import authorizer
from chalicelib.http.openapi.annotations import described

routes = Blueprint(__name__)

FOLDER = Path(__file__).parents[2] / "console"
PAGE = "index.html"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What the console is made of; a file of any other kind is not served."""
FILE_TYPES = tuple(content_type.partition(";")[0] for content_type in TYPES.values())

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Nothing runs but our own files, and browsers ask each time whether theirs are still ours."""


class _File(NamedTuple):
    text: str
    etag: str


@routes.route("/", methods=["GET"], **authorizer.ANYBODY)
@described("console", {}, media={200: ("text/html",), 302: (), 304: ()}, headers=("If-None-Match",))
@problems.answered
def get_page() -> Response:
    """The console."""
    # Links in the page are relative: below a stage of API Gateway they lead astray unless its path ends with a slash.
    path = str(authorizer.request().context.get("path") or "/")
    if not path.endswith("/"):
        return Response("", {"Location": f"{path}/"}, HTTPStatus.FOUND)
    return _served(PAGE)


@routes.route("/console/{path+}", methods=["GET"], **authorizer.ANYBODY)
@described("console", {}, media={200: FILE_TYPES, 304: ()}, headers=("If-None-Match",), refusals=(404,))
@problems.answered
def get_file() -> Response:
    """One of the files that the console is made of."""
    return _served((authorizer.request().uri_params or {}).get("path", ""))


def _served(name: str) -> Response:
    """The file, or that it has not changed; only what was found in the folder has a name here."""
    if name not in _names():
        raise NotFound(f"the console has no file '{name[:100]}'")
    file = _file(name)
    headers: dict[str, str | list[str]] = {**HEADERS, "Content-Type": TYPES[Path(name).suffix], "ETag": file.etag}
    if _is_known(file.etag):
        return Response("", headers, HTTPStatus.NOT_MODIFIED)
    return Response(file.text, headers)


@cache
def _names() -> frozenset[str]:
    found = (path for path in FOLDER.rglob("*") if path.suffix in TYPES)
    return frozenset(path.relative_to(FOLDER).as_posix() for path in found)


@cache
def _file(name: str) -> _File:
    content = (FOLDER / name).read_bytes()
    return _File(content.decode(), f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _is_known(etag: str) -> bool:
    """Tell whether the browser has this very file; a gateway that packs answers calls its tag weak."""
    listed = str(authorizer.request().headers.get("if-none-match") or "").split(",")
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in listed)
