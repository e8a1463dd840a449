"""The `annals` command. Exit codes are in `exits`, output formats in `printing`."""
