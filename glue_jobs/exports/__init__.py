"""Reads DynamoDB exports."""
