"""The proof of exact reads: however old the views are, whoever writes meanwhile, an answer is what its EventId says."""
