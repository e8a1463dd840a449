"""Builds the AWS deployment package, deploys it, and maintains deployed data."""
