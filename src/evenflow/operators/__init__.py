"""Operators: the code that workers run on rows, stateless or keyed."""
