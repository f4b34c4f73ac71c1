"""Expressions of rules as code over Arrow arrays."""
