"""The client and the `annals` command, with a real server."""
