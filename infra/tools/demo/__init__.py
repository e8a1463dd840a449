"""A month of jobs, orders and push jobs that never were, for people to look at."""
