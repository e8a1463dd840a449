"""View records: what the projector stores and how reads combine it with the log."""
