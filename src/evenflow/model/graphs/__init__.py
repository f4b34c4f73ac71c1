"""Operator graphs as values: their shape, and the problem of placing them."""
