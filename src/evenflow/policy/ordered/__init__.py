"""Balances of ordered regions: shares of rows by worker."""
