"""Measurements of one part of Evenflow, without a cluster."""
