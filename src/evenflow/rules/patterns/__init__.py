"""Sequence patterns: what the keys of a rule wait for."""
