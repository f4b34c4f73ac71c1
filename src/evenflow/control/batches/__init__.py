"""Batches of a query: attempts, evaluations, and what is stored of them."""
