"""What a cluster asks of Spark: sessions, slots, the jobs of workers, figures of queries."""
