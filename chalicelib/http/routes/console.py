"""Routes of the web console: its page and its files. They are public because they contain no data."""

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
from chalicelib.http.openapi.annotations import route_doc

routes = Blueprint(__name__)

FOLDER = Path(__file__).parents[2] / "console"
PAGE = "index.html"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""File types of the console. Other files are not served."""
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
"""Only scripts of the console run, and browsers revalidate cached files on each use."""


class _File(NamedTuple):
    text: str
    etag: str


@routes.route("/", methods=["GET"], **authorizer.PUBLIC)
@route_doc("console", {}, media_types={200: ("text/html",), 302: (), 304: ()}, headers=("If-None-Match",))
@problems.handle_errors
def get_page() -> Response:
    """The page of the web console."""
    # The page has relative links. Below a stage of API Gateway they only work if the path ends with a slash.
    path = str(authorizer.current_request().context.get("path") or "/")
    if not path.endswith("/"):
        return Response("", {"Location": f"{path}/"}, HTTPStatus.FOUND)
    return _file_response(PAGE)


@routes.route("/console/{path+}", methods=["GET"], **authorizer.PUBLIC)
@route_doc("console", {}, media_types={200: FILE_TYPES, 304: ()}, headers=("If-None-Match",), problems=(404,))
@problems.handle_errors
def get_file() -> Response:
    """A file of the web console."""
    return _file_response((authorizer.current_request().uri_params or {}).get("path", ""))


def _file_response(name: str) -> Response:
    # `name` comes from the URL: the comparison with existing names prevents path traversal.
    if name not in _file_names():
        raise NotFound(f"the console has no file '{name[:100]}'")
    file = _read_file(name)
    headers: dict[str, str | list[str]] = {**HEADERS, "Content-Type": TYPES[Path(name).suffix], "ETag": file.etag}
    if _is_cached(file.etag):
        return Response("", headers, HTTPStatus.NOT_MODIFIED)
    return Response(file.text, headers)


@cache
def _file_names() -> frozenset[str]:
    paths = (path for path in FOLDER.rglob("*") if path.suffix in TYPES)
    return frozenset(path.relative_to(FOLDER).as_posix() for path in paths)


@cache
def _read_file(name: str) -> _File:
    content = (FOLDER / name).read_bytes()
    return _File(content.decode(), f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _is_cached(etag: str) -> bool:
    """Whether the browser has this version. Gateways that compress responses make the tag weak."""
    tags = str(authorizer.current_request().headers.get("if-none-match") or "").split(",")
    return any(tag.strip().removeprefix("W/") in (etag, "*") for tag in tags)
