"""Simulated keyed regions."""
