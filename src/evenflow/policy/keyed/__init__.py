"""Balances of keyed operators: which unit belongs to which worker."""
