"""Tests of the history and the reports; they run in Spark's venv, which has nothing of the server's."""
