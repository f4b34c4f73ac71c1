"""The region of an operator graph: its statistics, and where its operators go."""
