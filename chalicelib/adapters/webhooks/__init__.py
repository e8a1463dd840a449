"""Requests to URLs that users configure: checked hosts and addresses, deadlines, size limits; signed CloudEvents."""
