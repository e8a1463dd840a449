"""Feeds, tested with third-party clients: npm eventsource, PyPI httpx-sse, and those of the browser."""
