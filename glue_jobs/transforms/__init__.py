"""Frames in, frames out: what the rows mean. Nothing here knows where they are kept."""
