"""Slack incoming webhooks."""
