"""Cost and CPU time on AWS."""
