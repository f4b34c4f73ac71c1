"""`evenflow torture`: a keyed streaming job under seeded schedules of faults, its output compared with a plain run."""
