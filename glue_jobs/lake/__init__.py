"""Reads and writes the files of the history and of reports."""
