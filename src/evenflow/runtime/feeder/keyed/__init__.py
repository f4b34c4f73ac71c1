"""The feeder of keyed regions: splitter, skew buffer, merger."""
