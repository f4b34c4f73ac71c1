"""Cases drawn from a seed: random rows through the public API, compared with what Spark SQL makes of the same rows."""
