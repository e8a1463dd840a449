"""The feeds' description, AsyncAPI 3.0: made of the API's description, so that both say the same."""

from chalicelib.http.asyncapi.document import document

__all__ = ["document"]
