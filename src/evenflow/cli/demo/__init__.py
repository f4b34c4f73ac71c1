"""`evenflow demo`: four streams, each without and with balancing."""
