"""Spark, as a cluster uses it: sessions, slots, the jobs of workers, figures of queries."""
