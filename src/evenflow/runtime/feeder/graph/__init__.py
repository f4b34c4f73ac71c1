"""The feeder of operator graphs."""
