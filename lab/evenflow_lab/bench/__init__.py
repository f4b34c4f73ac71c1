"""Measured runs: each figure is a ratio of values from the same run, and each run checks its own rows."""
