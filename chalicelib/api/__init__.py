"""HTTP in and out: requests parsed, answers written, problems told, callers known."""
