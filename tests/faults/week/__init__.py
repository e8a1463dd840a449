"""A simulated week of jobs, with workers that are killed at every step."""
