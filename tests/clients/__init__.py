"""The proof with clients that nobody here wrote: npm's eventsource, PyPI's httpx-sse, and the browser's own."""
