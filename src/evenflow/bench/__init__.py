"""Measured runs: each figure is a ratio within one run, each run checks its own rows."""
