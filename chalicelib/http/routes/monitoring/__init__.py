"""Routes about what is expected of jobs."""
