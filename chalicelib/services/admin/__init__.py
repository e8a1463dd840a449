"""Operator services: status, health, sign-in, recovery of consumers."""
