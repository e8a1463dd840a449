"""Writing: append, group commit, publish, ingest, and the organization directory."""
