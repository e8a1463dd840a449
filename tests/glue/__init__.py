"""Tests of the history and the reports. They run in Spark's venv, without the server's packages."""
