"""Tests of the report page, with small handwritten tables."""
