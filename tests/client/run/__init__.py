"""`annals run`, with a real server and real commands."""
