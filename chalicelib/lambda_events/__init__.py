"""Parsers for the events that AWS sends to our Lambda functions, and their responses."""
