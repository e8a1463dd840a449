"""The append request, the commit, and the message that the ingest queue carries."""
