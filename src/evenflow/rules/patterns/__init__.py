"""Sequence patterns: rows of a key that follow each other as a pattern says."""
