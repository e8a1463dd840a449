"""Pings: signals of jobs that only fetch a URL, and the keys that allow it."""
