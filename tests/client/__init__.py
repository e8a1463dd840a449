"""The client and the command `annals`, on a real server."""
