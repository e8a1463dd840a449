"""The HTTP/1.1 server: sockets, parsing, parked responses."""
