"""Exports of the log, and the reports made from them."""
