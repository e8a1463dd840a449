"""The history and report files."""
