"""The log in one SQLite file: for one machine, durable before the answer."""
