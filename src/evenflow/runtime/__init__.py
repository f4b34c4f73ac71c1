"""The live engine: the only layer that touches sockets and Spark."""
