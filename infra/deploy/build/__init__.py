"""Builds the deployment package and its template."""
