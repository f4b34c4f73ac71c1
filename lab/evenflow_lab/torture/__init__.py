"""`evenflow-lab torture`: streaming jobs under seeded schedules of faults, their output compared with a plain run."""
