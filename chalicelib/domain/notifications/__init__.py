"""Observers, deliveries, and the delivery message on the queue."""
