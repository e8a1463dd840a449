"""The processes of a run: writers, readers, HTTP clients and attackers."""
