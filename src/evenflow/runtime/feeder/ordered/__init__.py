"""The feeder of ordered regions: splitter, routes, merge."""
