"""Measurements on a cluster with Spark of its own."""
