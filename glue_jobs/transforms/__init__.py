"""Transforms of Arrow tables. They do not know where the tables are stored."""
