"""The laws that every keyed operator keeps, and their check."""
