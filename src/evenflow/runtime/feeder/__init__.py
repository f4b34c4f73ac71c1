"""Splitter and merger, inside the user's own query task."""
