"""Operators that add aggregates of each key to its rows."""
