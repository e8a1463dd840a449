"""Queries over events: filters, EventSeq results, pages, time series."""
