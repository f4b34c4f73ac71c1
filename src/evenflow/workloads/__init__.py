"""Seeded input for demos and benchmarks."""
