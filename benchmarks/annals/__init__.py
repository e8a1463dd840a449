"""Measurements of Annals alone."""
