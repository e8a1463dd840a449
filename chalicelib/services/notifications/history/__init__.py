"""What became of deliveries: the history for people, and the events about those that failed."""
