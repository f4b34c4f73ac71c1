"""Figures drawn from event logs."""
