"""Simulated ordered regions."""
