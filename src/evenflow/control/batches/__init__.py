"""Batches of a query: attempts, evaluations, and their state in the store."""
