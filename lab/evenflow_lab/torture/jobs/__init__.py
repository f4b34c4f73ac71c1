"""The jobs of torture runs: their queries, rows, and the comparison of their output."""
