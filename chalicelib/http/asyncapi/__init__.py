"""AsyncAPI 3.0 document of the feeds, derived from the OpenAPI document."""
