"""The region of an operator graph: its statistics and its placement."""
