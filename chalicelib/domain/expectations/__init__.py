"""Expectations: when jobs should run, and the alarms that follow if they do not."""
