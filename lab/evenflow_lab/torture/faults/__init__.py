"""The faults of torture runs, and the points at which they strike."""
