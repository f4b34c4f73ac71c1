"""Movements of units as a worker sees them: decisions, packing, transfers."""
