"""Rows of graphs on a worker: queue, nodes, and what goes on to other workers."""
