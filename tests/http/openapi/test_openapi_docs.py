"""docs/api.md is generated from the OpenAPI document."""

from infra.tools.api_docs import PAGE, page
from tests.http.openapi.response_checks import Document


def test_api_reference_is_up_to_date(openapi_document: Document) -> None:
    assert PAGE.read_text() == page(openapi_document), "run `make api-docs`"
