"""The reference of the API is written from its description."""

import app
from chalicelib import __version__
from chalicelib.http.openapi import document
from infra.tools.api_docs import PAGE, page


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text() == page(document(app.app.routes, __version__)), "make api-docs writes it anew"
