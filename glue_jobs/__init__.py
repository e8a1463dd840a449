"""Spark jobs that load exports of the log into a history, and make reports from the history; local or on Glue.

They run apart from the server and import none of its code.
"""
