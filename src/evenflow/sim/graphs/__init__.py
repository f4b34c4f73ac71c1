"""Simulated operator graphs."""
