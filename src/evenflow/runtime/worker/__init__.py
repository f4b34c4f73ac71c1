"""A long-lived Spark task: operators, the state of units, their movements and checkpoints."""
