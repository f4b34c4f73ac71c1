"""Ordered and keyed regions: their feeders, workers, statistics and balances."""
