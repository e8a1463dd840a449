"""Commands on the data directory of a local server. The `annals` command of the client runs `check` and `token`."""
