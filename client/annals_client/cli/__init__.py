"""`annals`: the client for the shell. Exit codes are in `exits`, what it prints in `printing`."""
