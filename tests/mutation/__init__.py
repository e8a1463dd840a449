"""Mutation testing: put bugs into a copy of the code and count how many the tests notice."""
