"""The one-process server: the Chalice app behind real sockets, durable on one machine."""
