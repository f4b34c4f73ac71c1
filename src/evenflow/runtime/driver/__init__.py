"""The controller's thread and what it reaches on the driver: connections, Spark, the checkpoint, the event log."""
