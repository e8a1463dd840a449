"""Generates a month of jobs, orders and push jobs as demo data."""
