"""The console in a real browser: Debian's chromium, against the real server."""
