"""The routes, by subject: each parses, calls, answers."""
