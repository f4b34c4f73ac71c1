"""The cluster for its users: its verbs, their arguments, and the Spark jobs of its workers."""
