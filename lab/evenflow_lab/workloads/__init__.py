"""Seeded input for measured runs and experiments, beside that of `evenflow.workloads`."""
