"""Fault injection: nothing is lost, duplicated, reordered or skipped, whatever fails."""
